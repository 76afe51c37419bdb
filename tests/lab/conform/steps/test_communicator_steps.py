"""Context ids of new communicators: who proposes what, and what an id must be."""

from __future__ import annotations

import pytest
from tester_world import TesterWorld

from impi.lab.conform.job.encoding import uint8
from impi.lab.conform.outcomes import Broken, NotTested
from impi.lab.conform.script.step_reading import read_step
from impi.lab.conform.steps.communicator_steps import Communicators, largest
from impi.lab.conform.steps.exchange_messages import Exchange
from impi.lab.conform.steps.group_steps import GroupSteps
from impi.lab.dissect.chapter4.collective_tags import Tag


def make(world: TesterWorld, line: str) -> None:
    step = read_step(line)
    GroupSteps(Exchange(world.job)).make(step)  # type: ignore[arg-type]


def dup(world: TesterWorld, agreed: int) -> None:
    """The client under test says that the largest id of all is this one."""
    world.says("DATA", 0, 2, uint8(agreed), tag=Tag.BCAST, cid=1)
    for rank in (0, 1):
        world.reports(rank, f"ok null=0 rank={rank} size=4")
    make(world, "group dup new=a")


def test_a_new_communicator_has_the_id_behind_the_largest() -> None:
    world = TesterWorld(datalen=64)
    dup(world, 7)
    assert (world.job.comms.cid("a"), world.job.comms.max_cid) == (8, 9)
    sent = [p for p in world.sent() if p.tag == Tag.REDUCE]
    assert [p.payload for p in sent] == [uint8(1)], "what we propose"
    dup(world, 9)
    assert world.job.comms.cid("a") == 10


@pytest.mark.parametrize("agreed", [4, 0])
def test_an_id_that_is_even_is_wrong(agreed: int) -> None:
    with pytest.raises(
        Broken, match=f"the largest context id in use is {agreed}"
    ) as raised:
        dup(TesterWorld(datalen=64), agreed)
    assert raised.value.clause == "4.3.1"


def test_an_id_that_is_in_use_is_wrong() -> None:
    world = TesterWorld(datalen=64)
    dup(world, 7)
    with pytest.raises(Broken, match="the largest context id in use is 7"):
        dup(world, 7)


def test_a_report_that_is_otherwise() -> None:
    world = TesterWorld(datalen=64)
    world.says("DATA", 0, 2, uint8(1), tag=Tag.BCAST, cid=1)
    world.reports(0, "ok null=1")
    with pytest.raises(Broken, match="rank 0 of the job reports 'ok null=1'"):
        make(world, "group dup new=a")


def begun(line: str) -> Communicators:
    step, found = read_step(line), Communicators(TesterWorld().job)
    found.begin(step)  # type: ignore[arg-type]
    return found


def test_those_under_test_are_told_in_ranks() -> None:
    assert begun("group create new=a ranks=S1,I0").lines == dict.fromkeys(
        (0, 1), "create comm=world new=a ranks=3,0"
    )
    assert begun("group split new=a colors=0,1,0,1 keys=3,2,1,0").lines == {
        0: "split comm=world new=a color=0 key=3",
        1: "split comm=world new=a color=1 key=2",
    }
    assert begun("group free comm=world").reports == {0: "ok", 1: "ok"}


def test_a_split_for_a_job_of_another_size_is_not_tested() -> None:
    with pytest.raises(NotTested, match="a job of 2 procs"):
        begun("group split new=a colors=0,1 keys=0,0")


def test_the_larger_of_two_ids() -> None:
    assert largest(uint8(255), uint8(256)) == uint8(256)
