"""Programs in C: compiled once, and what is said where they cannot be."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from impi.base.errors import LaunchError
from impi.tools.bench import compiled
from impi.tools.bench.timed_jobs import Client, Imp


def test_texts_for_a_compiler_are_known_by_their_names() -> None:
    assert compiled.is_compiled("usual.c")
    assert not compiled.is_compiled("usual.py")


@pytest.mark.slow
def test_a_program_is_compiled_once_and_tells_as_python_does() -> None:
    path = compiled.executable("usual.c", "pure")
    assert os.access(path, os.X_OK)
    assert compiled.executable("usual.c", "pure") == path
    argv = (
        "--iterations",
        "3",
        "--skip",
        "1",
        "--latency",
        "8",
        "--rate",
        "8",
        "--collectives",
        "8,16384",
    )
    clients = (Client("pure"), Client("pure"))
    told = [
        Imp(clients=clients, argv=(program, "--json", *argv)).run()
        for program in ("usual.c", "usual.py")
    ]
    assert told[0].keys() == told[1].keys()
    assert {"latency/8", "rate/8", "Barrier/0", "Alltoall/16384"} <= told[0].keys()


def test_a_compiler_that_fails_is_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled, "PROGRAMS", tmp_path)
    (tmp_path / "wrong.c").write_text("no C at all\n")
    with pytest.raises(LaunchError, match="without a compiler use --languages python"):
        compiled.executable("wrong.c", "pure")
