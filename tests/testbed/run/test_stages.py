"""Phases of ranks, as the lab's program on a node waits for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from forge import FakeBackend

from impi.testbed.lab.interface import Completed
from impi.testbed.lab.lab_topology import parse_topology
from impi.testbed.lab.roster import Roster
from impi.testbed.programs import stage
from impi.testbed.run import interference
from impi.testbed.run.interference import Interference

PROGRAM = str(Path(stage.__file__))


def run(*words: str) -> Any:
    done = subprocess.run([sys.executable, "-I", "-S", PROGRAM, *words], capture_output=True, check=True, timeout=60)
    return json.loads(done.stdout)


@pytest.fixture
def cell(tmp_path, monkeypatch):
    monkeypatch.setenv("IMPILAB_CELL", str(tmp_path))
    (tmp_path / "cell.json").write_text(json.dumps({"phase": "case"}))
    return tmp_path


def test_a_fault_waits_for_all_ranks_and_happens_once(cell):
    backend = FakeBackend()
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="r")
    folders = {"c0n0": "cell", "c1n0": "cell"}
    fault = Interference("partition@case", lab, Roster.of(lab.topology, ["pure", "pure"]), folders, 5.0)
    backend.commands["python3"] = Completed(argv=(), code=0, stdout=b"{}", stderr=b"")
    fault.begin()
    fault.turn()
    assert not fault.seen().began
    backend.commands["python3"] = Completed(argv=(), code=0, stdout=b'{"7": 0}', stderr=b"")
    fault.begin()
    for _ in range(3):
        fault.turn()
    fault.undo()
    fault.undo()
    seen = fault.seen()
    assert (seen.began, seen.refused, backend.log) == (True, 14, ["open", "prepare 2", "prepare 2", "drop", "heal"])
    assert lab.clients[0][0].read("cell/open-case") == b""


def test_a_partition_lasts_until_a_packet_was_refused(cell, monkeypatch):
    backend = FakeBackend()
    backend.refused = 0
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="r")
    folders = {"c0n0": "cell", "c1n0": "cell"}
    backend.commands["python3"] = Completed(argv=(), code=0, stdout=b'{"7": 0}', stderr=b"")
    now = 100.0
    monkeypatch.setattr(interference, "time", SimpleNamespace(monotonic=lambda: now))
    fault = Interference("partition@init", lab, Roster.of(lab.topology, ["pure", "pure"]), folders, 5.0)
    fault.begin()
    for now in (100.0, 101.0, 103.0, 110.0):
        fault.turn()
    assert backend.log == ["open", "prepare 2", "drop"]
    backend.refused = 1
    assert lab.network is not None
    lab.network.cut([("c0n0", "c1n0")], "drop")
    now = 111.0
    fault.turn()
    assert backend.log[-1] == "heal"


def test_cuts_come_again_and_are_counted(cell, monkeypatch):
    backend = FakeBackend()
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="r")
    folders = {"c0n0": "cell", "c1n0": "cell"}
    backend.commands["python3"] = Completed(argv=(), code=0, stdout=b'{"7": 0}', stderr=b"")
    now = 100.0
    monkeypatch.setattr(interference, "time", SimpleNamespace(monotonic=lambda: now))
    fault = Interference("cuts@case", lab, Roster.of(lab.topology, ["pure", "pure"]), folders, 5.0)
    fault.begin()
    for now in (100.0, 101.0, 102.5, 105.0, 110.0, 111.0, 111.9, 112.5):
        fault.turn()
    assert backend.log == ["open", "prepare 2", "drop", "heal", "drop"]
    assert fault.seen().times == 2
    assert lab.clients[0][0].read("cell/open-case") == b""
    now = 115.0
    fault.undo()
    assert backend.log[-1] == "heal"
    assert fault.seen().lasted_s == 4.0


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
