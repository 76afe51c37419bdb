"""Hits of the fault matrix: found, done, proved and undone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from forge import FakeBackend, FakeCommand

from impi.errors import LabError
from impi.testbed.lab.interface import Completed, Lab
from impi.testbed.lab.lab_topology import parse_topology
from impi.testbed.lab.roster import Roster
from impi.testbed.programs import strike as program
from impi.testbed.run import strike
from impi.testbed.run.strike import Strike

PARENT = """
import json, subprocess, sys, time
tree = json.loads(sys.argv[1])
open("/proc/self/comm", "w").write(tree["comm"])
for below in tree.get("below", ()):
    argv = [below["program"], __file__, json.dumps(below), *below.get("words", ())]
    subprocess.Popen(argv, stdout=subprocess.PIPE).stdout.readline()
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture
def impirun(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the starter of a mpiexec and that of a host agent below it."""
    script, mpiexec = tmp_path / "parent.py", tmp_path / "mpiexec"
    script.write_text(PARENT)
    mpiexec.symlink_to(sys.executable)
    python = sys.executable
    launcher = {"program": str(mpiexec), "comm": "mpiexec"}
    router = {"program": python, "comm": "python", "words": ["impi.agent"]}
    below = [{"program": python, "comm": "impi-starter", "below": [each]} for each in (router, launcher)]
    argv = [python, str(script), json.dumps({"comm": "impirun", "below": below})]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        os.killpg(process.pid, signal.SIGKILL)


def test_processes_below_impirun_are_found_by_what_they_are(impirun):
    found = {who: program.find(impirun.pid, who) for who in ("self", "starter", "mpiexec", "agent")}
    assert found["self"] == impirun.pid
    words = {who: Path(f"/proc/{pid}/cmdline").read_text().split("\0") for who, pid in found.items()}
    assert words["agent"][-2] == "impi.agent"
    assert Path(words["mpiexec"][0]).name == "mpiexec"
    parent = Path(f"/proc/{found['mpiexec']}/stat").read_text().rpartition(")")[2].split()[1]
    assert int(parent) == found["starter"]
    assert program.find(found["mpiexec"], "starter") == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_process_that_ends_is_seen_to_end(impirun, number):
    told = program.hit(number, impirun.pid)
    assert told["ended"]
    assert not told["still"]
    assert told["pid"] == impirun.pid
    assert told["was"] in ("S", "R")
    assert impirun.wait(30) == -number


def test_a_process_that_is_stopped_stands_still_until_it_is_thawed(impirun):
    assert not program.stands_still(impirun.pid)
    assert program.hit(signal.SIGSTOP, impirun.pid)["still"]
    assert program.thaw(impirun.pid)["still"]
    assert not program.thaw(impirun.pid)["still"]
    impirun.kill()
    impirun.wait(30)
    assert program.thaw(impirun.pid) == {"pid": impirun.pid, "still": False}


# -- from the lab's side

COMMANDS = {name: FakeCommand(Completed(argv=(), code=0, stdout=b"", stderr=b"")) for name in ("server", "client 0")}


class World:
    """A lab in which all ranks come to each phase, and time that the test tells."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, topology: str = "1x2+1x2", told: object = None) -> None:
        self.backend = FakeBackend()
        self.lab: Lab = self.backend.open(["pure", "pure"], parse_topology(topology), run="r")
        self.roster = Roster.of(self.lab.topology, ["pure", "pure"])
        self.asked: list[list[str]] = []
        self.now, self.started = 100.0, list[int]()
        told = told if told is not None else {"pid": 77, "what": "python", "at": 5.0, "still": True, "ended": True}
        for node in (self.lab.server, *(node for nodes in self.lab.clients for node in nodes)):
            monkeypatch.setattr(node, "start", lambda argv, env=None: self._start(argv, told))
        monkeypatch.setattr(strike, "time", SimpleNamespace(monotonic=lambda: self.now, time=lambda: 1000 + self.now))

    def _start(self, argv: list[str], told: object) -> FakeCommand:
        words = argv[5:]
        if words[0] == "cell":
            told = {"31": 0, "32": 1}
        else:
            self.asked.append(words)
        return FakeCommand(Completed(argv=(), code=0, stdout=json.dumps(told).encode(), stderr=b""))

    def strike(self, value: str) -> Strike:
        folders = {node.name: "cell" for nodes in self.lab.clients for node in nodes}
        found = Strike(value, self.lab, self.roster, folders, COMMANDS, (30.0, 10.0))
        found.begin()
        return found

    def opened(self, phase: str) -> list[int]:
        """The clients whose ranks may go on."""
        return [i for i, nodes in enumerate(self.lab.clients) if nodes[0].read(f"cell/open-{phase}") is not None]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ("kill-rank@recv", ["SIGKILL", "32", "self"]),
        ("kill-master@recv", ["SIGKILL", "31", "self"]),
        ("terminate-server@early", ["SIGTERM", "7", "self"]),
        ("interrupt-client@long", ["SIGINT", "7", "self"]),
        ("freeze-mpiexec@dance", ["SIGSTOP", "7", "mpiexec"]),
    ],
)
def test_a_hit_is_done_once_to_the_right_process(world, value, asked):
    hit = world.strike(value)
    assert hit.turn((), world.started.append) == hit.hit.what.limit_s
    assert hit.turn((), world.started.append) is None
    assert world.asked == [asked]
    seen = hit.seen()
    assert (seen.began, seen.victim, seen.at, seen.ended) == (True, 77, 5.0, True)


def test_nothing_is_done_before_all_ranks_have_come(world, monkeypatch):
    monkeypatch.setattr(
        world.lab.clients[0][0],
        "start",
        lambda _argv: FakeCommand(Completed(argv=(), code=0, stdout=b'{"31": 0}', stderr=b"")),
    )
    hit = world.strike("kill-rank@recv")
    assert hit.turn((), world.started.append) is None
    assert not hit.began
    assert not hit.seen().began


def test_a_process_that_is_not_there_is_a_fault_of_the_lab(monkeypatch):
    world = World(monkeypatch, told={})
    with pytest.raises(LabError, match="there is no mpiexec to hit below process 7"):
        world.strike("kill-mpiexec@recv").turn((), world.started.append)


@pytest.mark.parametrize(("phase", "clients"), [("recv", [0, 1]), ("compute", [])])
def test_ranks_that_hold_the_job_go_on_but_computing_ones_compute(world, phase, clients):
    world.strike(f"kill-rank@{phase}").turn((), world.started.append)
    assert world.opened(phase) == clients


def test_what_nobody_can_end_is_thawed_once_all_others_have_ended(world):
    hit = world.strike("freeze-server@recv")
    hit.turn((), world.started.append)
    assert hit.turn((), world.started.append) is None
    assert hit.turn(("client 0",), world.started.append) == 10.0
    assert world.asked == [["SIGSTOP", "7", "self"], ["thaw", "77"]]
    assert hit.seen().frozen
    assert hit.seen().thawed_at == 1100.0


def test_a_rank_that_stands_still_must_be_ended_by_its_job(world):
    hit = world.strike("freeze-rank@recv")
    hit.turn((), world.started.append)
    assert hit.turn(("client 0", "server"), world.started.append) is None
    assert hit.seen().thawed_at == 0.0


def test_a_slow_process_goes_on_and_so_does_the_job(world):
    hit = world.strike("slow-rank@recv")
    assert hit.turn((), world.started.append) == 13.0
    assert world.opened("recv") == []
    world.now += 4.0
    assert hit.turn((), world.started.append) == 10.0
    assert world.opened("recv") == [0, 1]
    assert hit.seen().lasted_s == 4.0


def test_links_are_cut_and_heal(world):
    hit = world.strike("blink-link@recv")
    hit.turn((), world.started.append)
    world.now += 3.5
    hit.turn((), world.started.append)
    hit.undo()
    assert world.backend.log == ["open", "prepare 3", "drop", "heal"]
    seen = hit.seen()
    assert (seen.refused, seen.lasted_s) == (7 * 4, 3.5)  # to and from the other client and the server


def test_slow_links_are_late(world):
    hit = world.strike("slow-channel@recv")
    hit.turn((), world.started.append)
    assert world.backend.log == ["open", "prepare 2", "links"]
    assert hit.seen().late == 0.2
    world.now += 4.0
    assert hit.turn((), world.started.append) == 30.0  # they stay so: the whole job is slower


def test_a_frozen_node_is_not_told_to_go_on(monkeypatch):
    world = World(monkeypatch, "2x2+2x2")
    hit = world.strike("freeze-node@recv")
    hit.turn((), world.started.append)
    assert world.lab.clients[0][1].read("cell/open-recv") is None
    assert world.lab.clients[0][0].read("cell/open-recv") == b""
    hit.undo()
    assert hit.seen().frozen


def test_ranks_that_do_not_need_the_victim_are_held_on(world):
    for victim in ("server", "client", "starter", "mpiexec"):
        world.strike(f"kill-{victim}@recv").turn((), world.started.append)
    assert world.opened("recv") == []


@pytest.mark.parametrize(
    ("topology", "lost"), [("1x2+1x2", {"witness c0n0", "client 0"}), ("2x2+2x2", {"witness c0n1"})]
)
def test_nothing_is_heard_of_a_node_that_is_gone(monkeypatch, topology, lost):
    world = World(monkeypatch, topology)
    hit = world.strike("kill-node@recv")
    assert hit.lost == set()
    hit.turn((), world.started.append)
    assert hit.lost == lost
    assert world.backend.log == ["open", "kill"]
    assert hit.seen().ended


def test_a_frozen_node_that_was_thawed_is_proved(world):
    hit = world.strike("freeze-node@recv")
    hit.turn((), world.started.append)
    hit.turn(("server",), world.started.append)
    hit.undo()
    assert hit.seen().frozen
