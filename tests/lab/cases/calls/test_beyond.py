"""Cases beyond IMPI 0.0: files, later processes, LCOs, endpoints."""

from __future__ import annotations

from typing import Any

import pytest
from judged import lacking

from impi.lab.cases.calls.beyond import BEYOND_CASES
from impi.lab.cases.case import COLLECTIVE, LCO_TAG
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology
from impi.lab.programs.payload import octets

ROSTER = Roster.of(parse_topology("1x2+1x2"), ["mpich", "openmpi"])
WIDE = Roster.of(parse_topology("2x1+1x2"), ["mpich", "openmpi"])
BY_NAME: dict[str, Any] = {case.name: case for case in BEYOND_CASES}


@pytest.mark.parametrize("case", BEYOND_CASES, ids=lambda case: case.name)
def test_a_message_that_does_not_cross_is_missed(case):
    assert "traffic.crossing" in lacking(case)


def test_only_who_shares_the_disk_of_rank_0_writes_by_itself():
    case = BY_NAME["files.shared"]
    assert [case.checks_of(WIDE, rank) for rank in range(4)] == [4, 2, 3, 3]
    writers = {m.src for m in case.crossings(WIDE, "n") if m.contains}
    assert writers == {0, 2, 3}


def test_children_are_behind_the_ranks_of_the_job():
    met = list(BY_NAME["later.spawn"].meetings(ROSTER, "n"))
    assert {(m.src, m.dest) for m in met if m.tag == 7} == {
        (2, 4),
        (2, 5),
        (3, 4),
        (3, 5),
    }
    asked = next(m for m in met if (m.src, m.dest) == (3, 5))
    answer = next(m for m in met if (m.src, m.dest) == (5, 3))
    assert answer.payload == asked.payload + octets("n", "child/1/3", 64)
    assert BY_NAME["later.spawn"].launch.options == ()


def test_packets_of_lcos_have_a_tag_of_their_own():
    found = [
        m
        for m in BY_NAME["lco.channel"].crossings(ROSTER, "n")
        if m.cid == COLLECTIVE and m.contains
    ]
    assert {m.tag for m in found} == {LCO_TAG, 252}
    assert [len(m.contains) for m in found if m.tag == 252] == [
        BY_NAME["lco.channel"].params["long"]
    ] * 4


def test_the_last_endpoint_of_a_process_sends_to_the_next_process():
    found = [m for m in BY_NAME["endpoints.ring"].crossings(ROSTER, "n") if m.contains]
    assert {(m.src, m.dest): m.contains for m in found} == {
        (1, 2): octets("n", "endpoint/3", 80),
        (3, 0): octets("n", "endpoint/7", 80),
    }
