"""The case of a job that survives the loss of a client."""

from __future__ import annotations

from typing import Any

from judged import lacking

from impi.lab.cases.case import FIRST_CREATED
from impi.lab.cases.ends.lost_clients import SURVIVAL_CASES
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

CASE: Any = SURVIVAL_CASES[0]
ROSTER = Roster.of(parse_topology("1x2+1x2+1x2"), ["mpich", "openmpi", "pure"])


def test_the_last_client_is_lost_and_all_others_end_well():
    ends = CASE.ends(ROSTER)
    assert (ends.lost, ends.well, ends.finalizes) == (2, True, False)
    assert "--resilient" in CASE.launch.options


def test_who_is_left_goes_on_on_a_communicator_without_the_lost():
    after = [m for m in CASE.crossings(ROSTER, "n") if m.cid == FIRST_CREATED + 2]
    assert {(m.src, m.dest) for m in after} == {(1, 2), (3, 0)}
    assert [CASE.checks_of(ROSTER, rank) for rank in range(6)] == [7, 7, 7, 7, 1, 1]


def test_each_survivor_of_another_client_is_told_and_agrees():
    notices = [m for m in CASE.crossings(ROSTER, "n") if m.tag == 253]
    assert {m.dest for m in notices if b"revoke" in m.contains} == {2, 3}
    assert {(m.src, m.dest) for m in notices if b"agree" in m.contains} == {
        (0, 2),
        (2, 0),
        (0, 3),
        (3, 0),
    }


def test_a_notice_that_nobody_gets_is_missed():
    assert "traffic.crossing" in lacking(CASE, topology="1x2+1x2+1x2")
