"""Phases of ranks, as the lab's program on a node waits for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from impi.lab.programs import stage

PROGRAM = str(Path(stage.__file__))


def run(*words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-I", "-S", PROGRAM, *words],
        capture_output=True,
        check=True,
        timeout=60,
    )
    return json.loads(done.stdout)


@pytest.fixture
def cell(tmp_path, monkeypatch):
    monkeypatch.setenv("IMPILAB_CELL", str(tmp_path))
    (tmp_path / "cell.json").write_text(json.dumps({"phase": "case"}))
    return tmp_path


def test_only_the_phase_of_the_fault_is_shut(cell):
    stage.stage("init")
    assert not stage.is_open("case")
    stage.reach("case")
    (cell / "open-case").touch()
    stage.stage("case")
    assert run(str(cell), "case", "1", "5") == {str(os.getpid()): stage.LOCAL_RANK}


def test_a_rank_that_nobody_lets_go_on_says_so(cell, monkeypatch):
    monkeypatch.setattr(stage, "_OPEN_S", 0.0)
    with pytest.raises(SystemExit, match="the lab has not opened phase case in 0 s"):
        stage.stage("case")


def test_ranks_that_do_not_come_are_waited_for_no_longer_than_asked(cell):
    assert run(str(cell), "case", "2", "0.05") == {}
