"""Communicators by name: their members, and what operations make of them."""

from __future__ import annotations

import pytest

from impi.base.errors import UsageError
from impi.lab.conform.job import script_steps as steps
from impi.lab.conform.job.named_communicators import NamedCommunicators


@pytest.fixture
def comms() -> NamedCommunicators:
    return NamedCommunicators({"I0": 0, "I1": 1, "S0": 2, "S1": 3})


def test_members_have_the_order_that_a_step_gives_them(
    comms: NamedCommunicators,
) -> None:
    comms.make(steps.Create(comm="world", new="a", ranks=(steps.Proc("S1"), 0)), 4, ())
    assert (comms.members("a"), comms.cid("a")) == ((3, 0), 4)
    assert (
        comms.rank_of("a", steps.Proc("S1")),
        comms.rank_of("a", 1),
        comms.index("a", 0),
    ) == (0, 1, 1)
    comms.make(steps.Dup(comm="a", new="b"), 6, ())
    assert (comms.members("b"), comms.cid("b"), comms.cid("a")) == ((3, 0), 6, 4)


def test_a_split_sorts_by_key_then_rank_and_names_colors(
    comms: NamedCommunicators,
) -> None:
    made = comms.make(
        steps.Split(comm="world", new="s", colors=(0, 0, 1, 0), keys=(5, 1, 0, 1)),
        4,
        tested=[0, 1],
    )
    assert made == {"s.0": ((1, 3, 0),), "s": ((1, 3, 0),), "s.1": ((2,),)}


def two(comms: NamedCommunicators) -> None:
    comms.make(
        steps.Split(comm="world", new="s", colors=(0, 0, 1, 1), keys=(0, 0, 0, 0)),
        4,
        tested=[0, 1],
    )
    comms.make(
        steps.Intercomm(groups=("s.0", "s.1"), leaders=(0, 0), tag=9, new="i"), 6, ()
    )


@pytest.mark.parametrize(
    ("high", "members"),
    [
        ((0, 1), (0, 1, 2, 3)),
        ((1, 0), (2, 3, 0, 1)),
        ((0, 0), (0, 1, 2, 3)),
        ((1, 1), (0, 1, 2, 3)),
    ],
)
def test_who_says_high_comes_last(
    comms: NamedCommunicators, high: tuple[int, int], members: tuple[int, ...]
) -> None:
    two(comms)
    assert comms.both("i") == ((0, 1), (2, 3))
    comms.make(steps.Merge(comm="i", new="m", high=high), 8, ())
    assert comms.members("m") == members


def test_what_is_not_there(comms: NamedCommunicators) -> None:
    two(comms)
    comms.make(steps.Free(comm="s"), 0, ())
    for use, told in (
        (lambda: comms.members("s"), "no communicator 's'; there are world"),
        (lambda: comms.members("i"), "'i' is an intercommunicator"),
        (lambda: comms.both("world"), "'world' is not an intercommunicator"),
        (lambda: comms.world_rank("S7"), "no proc 'S7'"),
        (
            lambda: comms.index("s.0", 3),
            "rank 3 of the job is not in the communicator 's.0'",
        ),
        (
            lambda: comms.make(steps.Create(comm="world", new="x", ranks=(4,)), 0, ()),
            "no rank 4",
        ),
    ):
        with pytest.raises(UsageError, match=told):
            use()
