"""Versions of Python and numpy: what a process has, and what is said of the others'."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import numpy as np
import pytest
from job_world import make_job

from impi.base.records import replaced
from impi.rank.engine.job import software

PYTHON = f"Python {sys.version_info[0]}.{sys.version_info[1]}"


def test_what_this_process_has() -> None:
    numpy = [int(part) for part in np.__version__.split(".")[:2]]
    assert list(software.own()) == [*sys.version_info[:2], *numpy]


@pytest.mark.parametrize(
    ("text", "found"),
    [('"""About."""\nversion = "1.26.4"\n', [1, 26]), ("", [0, 0]), (None, [0, 0])],
)
def test_another_numpy(
    text: str | None, found: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "numpy").mkdir()
    (tmp_path / "numpy" / "__init__.py").write_text("")
    if text is not None:
        (tmp_path / "numpy" / "version.py").write_text(text)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert list(software.own())[2:] == found
    monkeypatch.setattr(sys, "path", [])
    assert list(software.own())[2:] == [0, 0]


def test_only_what_differs_is_said() -> None:
    job = make_job(Random(1), [2, 1, 3])
    mine = tuple(software.own())
    assert software.differences(replaced(job, software=(mine,) * 3), 0) == ""
    said = software.differences(
        replaced(job, software=(mine, (3, 9, 0, 0), (3, 13, 1, 26))), 1
    )
    assert said == (
        f"rank 1 (client 0) has {PYTHON}, numpy {mine[2]}.{mine[3]}; rank 2 (client 1): Python 3.9 without numpy; "
        "ranks 3 to 5 (client 2): Python 3.13, numpy 1.26"
    )
    assert software.differences(job, 1).endswith(
        "; rank 2 (client 1): unknown versions; ranks 3 to 5 (client 2): unknown versions"
    )
