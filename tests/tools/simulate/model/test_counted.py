"""Chapter 3 in numbers is chapter 3 by the real machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from simulate_world import CASES, LIMITS, SHAPES, driver, facts, hop

from impi.protocol.options import HOSTS
from impi.tools.simulate.catalogue import Case, simulate
from impi.tools.simulate.model.shape import Limits, Shape, parse_shape


@settings(deadline=None, max_examples=150)
@given(SHAPES, LIMITS, CASES, st.sampled_from(HOSTS), st.data())
def test_the_counted_packets_are_those_of_the_transfer_machine(
    shape: Shape, limits: Limits, case: Case, kind: Any, data: st.DataObject
) -> None:
    case = replace(case, root=data.draw(st.integers(0, shape.size - 1)))
    real = simulate(
        shape,
        limits,
        case,
        driver(shape, limits, transport="packets", kind=kind, shared=False),
    )
    counted = simulate(shape, limits, case, driver(shape, limits, kind=kind))
    assert facts(real) == facts(counted)


def test_a_long_message_takes_a_round_trip_more() -> None:
    """DATASYNC, SYNCACK, DATA (IMPI 3.7.2)."""
    shape, limits = parse_shape("1x1+1x1"), Limits(datalen=1000)
    outcome = simulate(shape, limits, Case("bcast", 1500), driver(shape, limits))
    assert outcome.time == hop(1128) + hop(128) + hop(628)
    assert outcome.wide == {(0, 1): (2, 1756), (1, 0): (1, 128)}
