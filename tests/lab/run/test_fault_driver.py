"""The time of a fault: it waits for its phase, lasts, ends, and comes again."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from forge import FakeBackend, FakeCommand
from struck import World

from impi.base.remote.supervised import Completed
from impi.lab.cases.ends.network_faults import FAULTS
from impi.lab.nodes.interface import Lab
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology
from impi.lab.run import damage, fault_driver
from impi.lab.run.cell_commands import SERVER, Commands
from impi.lab.run.cell_commands import impirun as client
from impi.lab.run.fault_driver import FaultDriver


def driver(value: str, lab: Lab) -> FaultDriver:
    """The fault of a cell whose folder is the same on both nodes."""
    folders = {"c0n0": "cell", "c1n0": "cell"}
    roster = Roster.of(lab.access.topology, ["pure", "pure"])
    return FaultDriver(FAULTS[value], lab, roster, folders, Commands(key=7), (5.0, 5.0))


def never(client: int) -> None:
    """No client is held back."""
    raise AssertionError(client)


@pytest.fixture
def cell(tmp_path, monkeypatch):
    monkeypatch.setenv("IMPILAB_CELL", str(tmp_path))
    (tmp_path / "cell.json").write_text(json.dumps({"phase": "case"}))
    return tmp_path


def test_a_fault_waits_for_all_ranks_and_happens_once(cell):
    backend = FakeBackend()
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="r")
    fault = driver("partition@case", lab)
    backend.commands["python3"] = Completed(argv=(), code=0, stdout=b"{}", stderr=b"")
    fault.begin()
    fault.turn((), never)
    assert not fault.seen().began
    backend.commands["python3"] = Completed(
        argv=(), code=0, stdout=b'{"7": 0}', stderr=b""
    )
    fault.begin()
    for _ in range(3):
        fault.turn((), never)
    fault.undo()
    fault.undo()
    seen = fault.seen()
    assert (seen.began, seen.refused, backend.log) == (
        True,
        14,
        ["open", "prepare 2", "prepare 2", "drop", "heal"],
    )
    assert lab.clients[0][0].read("cell/open-case") == b""


def test_a_partition_lasts_until_a_packet_was_refused(cell, monkeypatch):
    backend = FakeBackend()
    backend.refused = 0
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="r")
    backend.commands["python3"] = Completed(
        argv=(), code=0, stdout=b'{"7": 0}', stderr=b""
    )
    now = 100.0
    for module in (damage, fault_driver):
        monkeypatch.setattr(
            module, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: now)
        )
    fault = driver("partition@init", lab)
    fault.begin()
    for now in (100.0, 101.0, 103.0, 110.0):
        fault.turn((), never)
    assert backend.log == ["open", "prepare 2", "drop"]
    backend.refused = 1
    assert lab.network is not None
    lab.network.cut([("c0n0", "c1n0")], "drop")
    now = 111.0
    fault.turn((), never)
    assert backend.log[-1] == "heal"


def test_cuts_come_again_and_are_counted(cell, monkeypatch):
    backend = FakeBackend()
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="r")
    backend.commands["python3"] = Completed(
        argv=(), code=0, stdout=b'{"7": 0}', stderr=b""
    )
    now = 100.0
    for module in (damage, fault_driver):
        monkeypatch.setattr(
            module, "time", SimpleNamespace(monotonic=lambda: now, time=lambda: now)
        )
    fault = driver("cuts@case", lab)
    fault.begin()
    for now in (100.0, 101.0, 102.5, 105.0, 110.0, 111.0, 111.9, 112.5):
        fault.turn((), never)
    assert backend.log == ["open", "prepare 2", "drop", "heal", "drop"]
    assert fault.seen().times == 2
    assert lab.clients[0][0].read("cell/open-case") == b""
    now = 115.0
    fault.undo()
    assert backend.log[-1] == "heal"
    assert fault.seen().lasted_s == 4.0


def test_the_next_cut_counts_from_when_the_last_one_has_healed(cell, monkeypatch):
    """Nodes of a busy machine take seconds: two cuts became one of 10 s, which ends a job."""
    backend = FakeBackend()
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="r")
    backend.commands["python3"] = Completed(
        argv=(), code=0, stdout=b'{"7": 0}', stderr=b""
    )
    clock = SimpleNamespace(now=100.0)
    clock.monotonic = clock.time = lambda: clock.now
    for module in (damage, fault_driver):
        monkeypatch.setattr(module, "time", clock)
    fault = driver("cuts@case", lab)
    fault.begin()
    fault.turn((), never)
    heal = fault._damage.undo

    def slowly():
        heal()
        clock.now += 5.0

    monkeypatch.setattr(fault._damage, "undo", slowly)
    for clock.now in (102.5, 111.0):
        fault.turn((), never)
    assert backend.log[-1] == "heal"
    clock.now = 116.0
    fault.turn((), never)
    assert backend.log[-1] == "drop"


def test_nothing_is_done_before_all_ranks_have_come(world, monkeypatch):
    monkeypatch.setattr(
        world.lab.clients[0][0],
        "start",
        lambda _argv: FakeCommand(
            Completed(argv=(), code=0, stdout=b'{"31": 0}', stderr=b"")
        ),
    )
    hit = world.strike("kill-rank@recv")
    assert hit.turn((), world.started.append) is None
    assert not hit.began
    assert not hit.seen().began


@pytest.mark.parametrize(("phase", "clients"), [("recv", [0, 1]), ("compute", [])])
def test_ranks_that_hold_the_job_go_on_but_computing_ones_compute(
    world, phase, clients
):
    world.strike(f"kill-rank@{phase}").turn((), world.started.append)
    assert world.opened(phase) == clients


def test_what_nobody_can_end_is_thawed_once_all_others_have_ended(world):
    hit = world.strike("freeze-server@recv")
    hit.turn((), world.started.append)
    assert hit.turn((), world.started.append) is None
    assert hit.turn((client(0),), world.started.append) == 10.0
    assert world.asked == [["SIGSTOP", "7", "self"], ["thaw", "77"]]
    assert hit.seen().frozen
    assert hit.seen().thawed_at == 1100.0


def test_a_rank_that_stands_still_must_be_ended_by_its_job(world):
    hit = world.strike("freeze-rank@recv")
    hit.turn((), world.started.append)
    assert hit.turn((client(0), SERVER), world.started.append) is None
    assert hit.seen().thawed_at == 0.0


def test_a_slow_process_goes_on_and_so_does_the_job(world):
    hit = world.strike("slow-rank@recv")
    assert hit.turn((), world.started.append) == 13.0
    assert world.opened("recv") == []
    world.now += 4.0
    assert hit.turn((), world.started.append) == 10.0
    assert world.opened("recv") == [0, 1]
    assert hit.seen().lasted_s == 4.0


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
