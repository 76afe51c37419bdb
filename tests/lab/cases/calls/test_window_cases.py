"""Cases of windows: accesses that describe themselves, and their answers."""

from __future__ import annotations

from typing import Any

import pytest
from judged import lacking, spoiled

from impi.lab.cases.calls.window_cases import WINDOW_CASES
from impi.lab.cases.case import FIRST_CREATED
from impi.lab.dissect import ACCESS_TAG, ANSWER_TAG, DATA_TAG
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

ROSTER = Roster.of(parse_topology("1x2+1x2"), ["mpich", "openmpi"])
BY_NAME: dict[str, Any] = {case.name: case for case in WINDOW_CASES}


@pytest.mark.parametrize("case", BY_NAME.values(), ids=lambda case: case.name)
def test_a_message_that_does_not_cross_is_missed(case):
    assert "traffic.crossing" in lacking(case)


@pytest.mark.parametrize("case", [BY_NAME["rma.fence"]], ids=lambda case: case.name)
def test_other_octets_are_seen(case):
    assert "traffic.payload" in spoiled(case)


def test_a_get_is_answered_with_what_was_put():
    found = list(BY_NAME["rma.fence"].crossings(ROSTER, "n"))
    puts = [m.payload for m in found if m.access and m.payload]
    answers = [m for m in found if m.tag == ANSWER_TAG]
    assert {(m.src, m.dest) for m in answers} == {(2, 1), (0, 3)}
    for answer in answers:
        assert any(payload.endswith(answer.payload) for payload in puts)


def test_long_data_comes_apart_on_the_second_window():
    long = [m for m in BY_NAME["rma.fence"].crossings(ROSTER, "n") if m.tag == DATA_TAG]
    assert {m.cid for m in long} == {FIRST_CREATED + 2}
    assert {m.nbytes for m in long} == {BY_NAME["rma.fence"].params["long"]}


def test_each_lock_of_another_client_is_asked_for_and_acknowledged():
    found = list(BY_NAME["rma.lock"].crossings(ROSTER, "n"))
    assert {m.src for m in found if m.tag == ACCESS_TAG} == {2, 3}, (
        "rank 1 is of the target's own client"
    )
    turns = BY_NAME["rma.lock"].params["turns"]
    assert {m.count for m in found if m.tag == ANSWER_TAG} == {2 * turns, turns + 1}
