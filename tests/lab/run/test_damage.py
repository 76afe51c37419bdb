"""The damage of a fault, its victim, and its proof."""

from __future__ import annotations

import pytest
from struck import World

from impi.base.errors import LabError
from impi.lab.run.cell_commands import SERVER, witness
from impi.lab.run.cell_commands import impirun as client


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
    assert hit.turn((), world.started.append) == hit.fault.what.limit_s
    assert hit.turn((), world.started.append) is None
    assert world.asked == [asked]
    seen = hit.seen()
    assert (seen.began, seen.victim, seen.at, seen.ended) == (True, 77, 5.0, True)


@pytest.mark.parametrize(
    ("value", "asked"),
    [
        ("kill-rank@recv", ["SIGKILL", "32", "self"]),
        ("terminate-server@early", ["SIGTERM", "7", "self"]),
        ("kill-client@recv", ["SIGKILL", "7", "self", "0"]),
        ("freeze-mpiexec@dance", ["SIGSTOP", "7", "mpiexec", "0"]),
    ],
)
def test_below_one_command_for_all_it_is_done_to_the_clients(world, value, asked):
    world.commands.share(0)
    world.strike(value).turn((), world.started.append)
    assert world.asked == [asked]


def test_a_process_that_is_not_there_is_a_fault_of_the_lab(monkeypatch):
    world = World(monkeypatch, told={})
    with pytest.raises(LabError, match="there is no mpiexec to hit below process 7"):
        world.strike("kill-mpiexec@recv").turn((), world.started.append)


def test_links_are_cut_and_heal(world):
    hit = world.strike("blink-link@recv")
    hit.turn((), world.started.append)
    world.now += 3.5
    hit.turn((), world.started.append)
    hit.undo()
    assert world.backend.log == ["open", "prepare 3", "drop", "heal"]
    seen = hit.seen()
    # To and from the other client and the server
    assert (seen.refused, seen.lasted_s) == (7 * 4, 3.5)


def test_slow_links_are_late(world):
    hit = world.strike("slow-channel@recv")
    hit.turn((), world.started.append)
    assert world.backend.log == ["open", "prepare 2", "links"]
    assert hit.seen().late == 0.2
    world.now += 4.0
    # They stay so: the whole job is slower
    assert hit.turn((), world.started.append) == 30.0


@pytest.mark.parametrize(
    ("topology", "lost"),
    [("1x2+1x2", {witness("c0n0"), client(0)}), ("2x2+2x2", {witness("c0n1")})],
)
def test_nothing_is_heard_of_a_node_that_is_gone(monkeypatch, topology, lost):
    world = World(monkeypatch, topology)
    hit = world.strike("kill-node@recv")
    assert world.lost() == set()
    hit.turn((), world.started.append)
    assert world.lost() == lost
    assert world.backend.log == ["open", "kill"]
    assert hit.seen().ended


def test_a_frozen_node_that_was_thawed_is_proved(world):
    hit = world.strike("freeze-node@recv")
    hit.turn((), world.started.append)
    hit.turn((SERVER,), world.started.append)
    hit.undo()
    assert hit.seen().frozen
