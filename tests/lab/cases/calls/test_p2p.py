"""Cases of messages: what must cross, in which form, and how often it is checked."""

from __future__ import annotations

from typing import Any

import pytest
from judged import lacking, spoiled

from impi.lab.cases.calls.p2p import P2P_CASES
from impi.lab.cases.case import DATALEN
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology

ROSTER = Roster.of(parse_topology("1x2+1x2"), ["mpich", "openmpi"])
BY_NAME: dict[str, Any] = {case.name: case for case in P2P_CASES}
KNOWN = [
    case for case in P2P_CASES if any(m.payload for m in case.crossings(ROSTER, "n"))
]
"""Those whose octets are known: pickles and empty messages are not."""


@pytest.mark.parametrize("case", BY_NAME.values(), ids=lambda case: case.name)
def test_a_message_that_does_not_cross_is_missed(case):
    assert "traffic.crossing" in lacking(case)


@pytest.mark.parametrize("case", KNOWN, ids=lambda case: case.name)
def test_other_octets_are_seen(case):
    assert "traffic.payload" in spoiled(case)


def crossings(name):
    return list(BY_NAME[name].crossings(ROSTER, "nonce"))


def test_a_long_message_waits_for_its_answer():
    by_size = {m.nbytes: m.sync for m in crossings("p2p.sizes")}
    assert by_size == {n: n > DATALEN for n in by_size}
    assert {DATALEN, DATALEN + 1} <= by_size.keys()


def test_limits_are_those_of_the_least_offer():
    offers = [BY_NAME["p2p.limits"].launch.offers(client) for client in range(3)]
    assert len(set(offers)) == 3
    least = min(int(offer[offer.index("--datalen") + 1]) for offer in offers)
    assert {m.nbytes for m in crossings("p2p.limits") if m.sync} == {
        n for n in (20_001, 50_001) if n > least
    }


def test_values_of_every_type_have_a_native_form_or_none_is_known():
    for message in crossings("p2p.types"):
        assert message.header.elements == 5
        assert (
            message.native is not None
            or not message.units
            or len(message.form) == len(message.payload)
        )
    narrow = [m for m in crossings("p2p.types") if m.native is not None]
    assert all(len(m.native) == 2 * len(m.payload) for m in narrow)
    assert narrow


def test_what_is_cancelled_comes_again():
    found = crossings("p2p.cancel")
    assert {m.tag for m in found if m.cancelled} == {56, 57}
    assert [m.nbytes for m in found if m.tag == 56 and not m.cancelled] == [20] * 4


def test_only_pure_takes_sends_back_inside_a_client():
    mixed = Roster.of(parse_topology("1x2+1x2+1x1"), ["pure", "mpich", "pure"])
    checks = [BY_NAME["p2p.cancel"].checks_of(mixed, rank) for rank in range(5)]
    assert checks == [3 + 2 + 3] * 2 + [3 + 2] * 3


def test_checks_are_by_rank_where_ranks_differ():
    case = BY_NAME["p2p.any"]
    assert [case.checks_of(ROSTER, rank) for rank in range(4)] == [2 * 3 + 2, 2, 2, 2]
