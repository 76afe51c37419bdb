"""Cases of communicators: their context ids, and ranks in them."""

from __future__ import annotations

from typing import Any

import pytest
from judged import lacking, spoiled

from impi.lab.cases.calls.communicators import COMMUNICATOR_CASES
from impi.lab.cases.case import FIRST_CREATED, WORLD
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

ROSTER = Roster.of(parse_topology("1x2+1x2"), ["mpich", "openmpi"])
BY_NAME: dict[str, Any] = {case.name: case for case in COMMUNICATOR_CASES}


@pytest.mark.parametrize("case", BY_NAME.values(), ids=lambda case: case.name)
def test_a_message_that_does_not_cross_is_missed(case):
    assert "traffic.crossing" in lacking(case)


@pytest.mark.parametrize("case", BY_NAME.values(), ids=lambda case: case.name)
def test_other_octets_are_seen(case):
    assert "traffic.payload" in spoiled(case)


def crossings(name):
    return list(BY_NAME[name].crossings(ROSTER, "n"))


def test_each_new_communicator_has_the_next_even_context():
    assert {m.cid for m in crossings("comm.dup")} == {
        WORLD,
        FIRST_CREATED,
        FIRST_CREATED + 2,
    }
    assert {m.cid for m in crossings("comm.many")} == {FIRST_CREATED + 2 * 40}


def test_messages_are_on_contexts_of_the_job():
    for case in COMMUNICATOR_CASES:
        assert {m.cid for m in case.crossings(ROSTER, "n")} <= case.contexts, case.name


def test_ranks_are_those_in_the_communicator():
    """A communicator of ranks 3, 2 and 0 in this order: rank 1 is left out."""
    assert {(m.src, m.header.lsrank) for m in crossings("comm.create")} == {
        (0, 2),
        (2, 1),
    }
    assert {(m.src, m.header.lsrank) for m in crossings("comm.clients")} == {
        (0, 0),
        (2, 1),
    }


def test_a_rank_that_is_left_out_checks_less():
    case = BY_NAME["comm.create"]
    assert [case.checks_of(ROSTER, rank) for rank in range(4)] == [7, 3, 7, 7]
