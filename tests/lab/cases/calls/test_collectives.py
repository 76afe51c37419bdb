"""Cases of collectives: their messages among masters, and which others may cross."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from judged import lacking, spoiled

from impi.lab.cases.calls.collectives import COLLECTIVE_CASES
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

ROSTER = Roster.of(parse_topology("1x2+1x2"), ["mpich", "openmpi"])
BY_NAME: dict[str, Any] = {case.name: case for case in COLLECTIVE_CASES}
KNOWN = [
    case
    for case in COLLECTIVE_CASES
    if any(m.payload for m in case.crossings(ROSTER, "n"))
]


@pytest.mark.parametrize("case", BY_NAME.values(), ids=lambda case: case.name)
def test_a_message_that_does_not_cross_is_missed(case):
    assert "traffic.crossing" in lacking(case)


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: case.name)
def test_other_octets_are_seen(case):
    assert "traffic.payload" in spoiled(case)


def test_a_broadcast_goes_to_the_other_masters_from_each_root():
    found = [(m.src, m.dest) for m in BY_NAME["coll.bcast"].crossings(ROSTER, "n")]
    assert found == [(0, 2), (1, 2), (2, 0), (3, 0)]


def test_a_long_broadcast_is_synchronous():
    (message,) = BY_NAME["coll.bcast-long"].crossings(ROSTER, "n")
    assert (message.src, message.dest, message.sync) == (3, 0, True)
    assert message.nbytes == BY_NAME["coll.bcast-long"].params["size"]


def test_barriers_have_messages_between_them():
    tags = Counter(m.tag for m in BY_NAME["coll.barrier"].crossings(ROSTER, "n"))
    assert tags == {Tag.BARRIER: 2, 70: 3 * 2}
    assert {
        m.count
        for m in BY_NAME["coll.barrier"].crossings(ROSTER, "n")
        if m.tag == Tag.BARRIER
    } == {3}


def test_collectives_are_on_the_collective_context():
    for case in COLLECTIVE_CASES:
        for message in case.crossings(ROSTER, "n"):
            assert message.cid % 2 == (message.tag in set(Tag)), (case.name, message)


def test_parts_of_a_scatter_are_those_that_were_gathered():
    sizes = BY_NAME["coll.sizes"]
    found = list(sizes.crossings(ROSTER, "n"))
    by_tag = {
        tag: [m.payload for m in found if m.tag == tag]
        for tag in (Tag.GATHER, Tag.SCATTER)
    }
    assert len(by_tag[Tag.SCATTER]) == 2 * len(sizes.params["sizes"])
    assert set(by_tag[Tag.SCATTER]) <= {
        part for whole in by_tag[Tag.GATHER] for part in (whole, *halves(whole))
    }


def halves(octets: bytes) -> tuple[bytes, bytes]:
    return octets[: len(octets) // 2], octets[len(octets) // 2 :]
