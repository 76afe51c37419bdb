"""Cases of reductions: operations, widths, order and parts."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from judged import lacking, spoiled

from impi.lab.cases.calls.reductions import REDUCTION_CASES, _best, _composed
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology
from impi.lab.programs.payload import COMBINE, external_ints, numbers

ROSTER = Roster.of(parse_topology("1x2+1x2"), ["mpich", "openmpi"])
BY_NAME: dict[str, Any] = {case.name: case for case in REDUCTION_CASES}


@pytest.mark.parametrize("case", BY_NAME.values(), ids=lambda case: case.name)
def test_a_message_that_does_not_cross_is_missed(case):
    assert "traffic.crossing" in lacking(case)


@pytest.mark.parametrize("case", BY_NAME.values(), ids=lambda case: case.name)
def test_other_octets_are_seen(case):
    assert "traffic.payload" in spoiled(case)


def test_every_predefined_operation_is_checked():
    case = BY_NAME["reduce.ops"]
    assert case.checks_of(ROSTER, 0) == len(COMBINE)
    assert len(list(case.crossings(ROSTER, "n"))) == 2 * len(COMBINE), (
        "to rank 0, and from there"
    )


def test_results_follow_from_all_parts():
    """The result is the maximum of all ranks' values, as rank 0 returns it."""
    back = [
        m for m in BY_NAME["reduce.ops"].crossings(ROSTER, "n") if m.tag == Tag.BCAST
    ]
    rows = [numbers("n", f"ops/{rank}", 6) for rank in range(4)]
    assert back[list(COMBINE).index("MAX")].payload == external_ints(
        [max(column) for column in zip(*rows, strict=True)]
    )


def test_a_map_is_composed_in_the_order_of_ranks():
    first, second = external_ints([3, 5]), external_ints([7, 2])
    assert _composed(first, second) == external_ints([21, 11])
    assert _composed(second, first) == external_ints([21, 37])


@pytest.mark.parametrize(("sign", "rank"), [(1, 0), (-1, 1)])
def test_of_equal_values_the_lower_rank_is_told(sign, rank):
    one, other = (
        struct.pack(">di", 4.0, 1),
        struct.pack(">di", 4.0 if sign < 0 else 3.0, 2),
    )
    found = struct.unpack(">di", _best(sign, one, other))
    assert found == (4.0, 1)
    assert (
        struct.unpack(">di", _best(sign, struct.pack(">di", sign * 9.0, rank), one))[1]
        == rank
    )


def test_widths_are_those_of_their_types():
    case = BY_NAME["reduce.widths"]
    units = [m.units for m in case.crossings(ROSTER, "n")][::2]
    assert units == [(int(code[1:]),) for _, code in case.params["types"]]
