"""Signs and names on terminals of all encodings."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from impi.cli.any_terminal import take_any_text

TOP = Path(__file__).parents[2]
FAILS = 'from mpi4py import MPI\nassert MPI.COMM_WORLD.rank != 1, "grösser ✗"\n'


@pytest.mark.parametrize(
    ("encoding", "text", "octets"),
    [
        ("ascii", "✓ ✗ ⧖ · ≈ é", b"+ F T . % \\xe9"),
        ("iso8859-1", "✓ é", b"+ \xe9"),
        ("utf-8", "✓ é", "✓ é".encode()),
        ("utf-8", "a\udce9b", b"a\xe9b"),
    ],
)
def test_a_stream_takes_what_its_encoding_lacks(
    encoding: str, text: str, octets: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setattr(sys, "stderr", None)
    take_any_text()
    print(text, end="", flush=True)
    assert stream.buffer.getvalue() == octets


@pytest.mark.slow
@pytest.mark.parametrize(
    "locale",
    [
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        pytest.param({"PYTHONIOENCODING": "iso8859-1"}, marks=pytest.mark.proof),
    ],
    ids=["C", "Latin-1"],
)
def test_a_red_cell_in_each_locale_is_a_red_cell(
    locale: dict[str, str], tmp_path: Path
) -> None:
    """It had been a traceback with the exit code of a red cell, and its result was lost."""
    (tmp_path / "fail.py").write_text(FAILS, "utf-8")
    argv = [
        "run",
        "--program",
        "fail.py",
        "--parties",
        "pure+pure",
        "--topology",
        "1x1+1x1",
        "--backend",
        "local",
    ]
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LC_", "LANG", "PYTHON"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "impi.cli.impilab", *argv],
        env=environ | locale | {"PYTHONPATH": str(TOP)},
        cwd=tmp_path,
        capture_output=True,
        timeout=100,
        check=False,
    )
    said = done.stdout.decode("latin-1") + done.stderr.decode("latin-1")
    assert done.returncode == 1, said
    assert "Traceback" not in done.stderr.decode("latin-1")
    assert " F program.fail/pure+pure/1x1+1x1" in said
    [evidence] = (tmp_path / "runs/latest/cells").glob("*/client1.stderr")
    assert "grösser ✗" in evidence.read_text("utf-8")
