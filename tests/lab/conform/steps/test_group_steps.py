"""Steps of a whole group: everybody is told, messages cross, and results are compared."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tester_world import TesterWorld

from impi.lab.conform.job.script_steps import Collective, Proc
from impi.lab.conform.outcomes import Broken
from impi.lab.conform.script import test_data
from impi.lab.conform.script.step_reading import COLLECTIVES, read_step
from impi.lab.conform.steps import group_steps
from impi.lab.conform.steps.exchange_messages import Exchange
from impi.lab.conform.steps.group_steps import GroupSteps
from impi.lab.dissect.chapter4.collective_tags import Tag


def perform(world: TesterWorld, line: str) -> None:
    step = read_step(line)
    assert isinstance(step, Collective)
    GroupSteps(Exchange(world.job)).perform(step)


def test_a_broadcast_of_a_simulated_root() -> None:
    world = TesterWorld()
    shown = test_data.shown(test_data.octets("byte", 3, 4))
    for rank in (0, 1):
        world.reports(rank, f"ok data={shown}")
    perform(world, "group bcast root=S0 count=3 seed=4")
    sent = world.sent()
    assert [p.payload[:5] for p in sent if p.cid == 0 and p.kind == "DATASYNC"] == [
        b"bcast"
    ] * 2
    (message,) = [p for p in sent if p.cid == 1]
    assert (message.tag, message.payload, message.dest[1]) == (
        Tag.BCAST,
        test_data.octets("byte", 3, 4),
        100,
    )


def test_a_result_that_is_otherwise() -> None:
    world = TesterWorld(datalen=64)
    for rank in (0, 1):
        world.reports(rank, "ok data=ff")
    with pytest.raises(Broken, match="rank 0 reports 'ok data=ff'"):
        perform(world, "group bcast root=S0 count=1")


def test_a_message_that_is_otherwise() -> None:
    world = TesterWorld(datalen=64)
    world.says("DATA", 0, 2, b"no", tag=Tag.BCAST, cid=1)
    with pytest.raises(Broken, match="sends other data to rank 2"):
        perform(world, "group bcast root=I0 count=2")


def test_a_reduction_of_all_ranks_in_their_order() -> None:
    """The client under test combines its two parts; the whole follows from all four."""
    world = TesterWorld(datalen=64)
    parts = [test_data.octets("int", 2, rank) for rank in range(4)]

    def added(rows: Sequence[bytes]) -> bytes:
        values = [test_data.decode("int", row) for row in rows]
        return test_data.encode(
            "int", [sum(column) for column in zip(*values, strict=True)]
        )

    world.says("DATA", 0, 2, added(parts[:2]), tag=Tag.REDUCE, cid=1)
    for rank in (0, 1):
        world.reports(rank, "ok")
    perform(world, "group reduce root=S0 count=2 type=int op=sum")
    assert not list(world.procs.unclaimed())


def test_names_of_procs_become_ranks() -> None:
    steps = GroupSteps(Exchange(TesterWorld().job))
    assert (
        steps.line("send", "world", {"peer": (Proc("S1"),), "tag": "5"})
        == "send peer=3 tag=5"
    )
    assert steps.tested("world") == [(0, 0), (1, 1)]


def test_every_collective_of_scripts_is_performed() -> None:
    assert group_steps._COLLECTIVES.keys() == set(COLLECTIVES)


def test_composition_of_maps_is_not_commutative() -> None:
    assert group_steps._affine([2, 3], [5, 7]) == [10, 17]
    assert group_steps._affine([5, 7], [2, 3]) == [10, 22]


def test_the_barrier_of_finalize() -> None:
    world = TesterWorld()
    world.says("DATA", 0, 2, tag=Tag.BARRIER, cid=1)
    GroupSteps(Exchange(world.job)).barrier_of_finalize()
    assert [(p.tag, p.cid) for p in world.sent()] == [(Tag.BARRIER, 1)]
    with pytest.raises(Broken, match="does not come"):
        GroupSteps(Exchange(world.job)).barrier_of_finalize()
