"""Parameters of a network from what was measured of it."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import UsageError
from impi.tools.tune.plogp import Curve, Parameters, contradiction, derive, typical

seconds = st.floats(1e-7, 1.0)


def test_a_curve_is_straight_between_points_and_beyond_them() -> None:
    curve = Curve(((0, 1.0), (10, 2.0), (20, 6.0)))
    assert [curve(m) for m in (0, 5, 10, 15, 20, 30)] == [1.0, 1.5, 2.0, 4.0, 6.0, 10.0]
    assert Curve(((7, 3.0),))(100) == 3.0
    assert Curve(((0, 5.0), (10, 1.0)))(100) == 0.0, "no time is negative"
    assert Curve(((10, 1.0), (20, 2.0)))(0) == 0.0


def network(latency: float, per_message: float, per_octet: float) -> Parameters:
    """A network that is exactly so, as it would be measured."""
    sizes = (0, 100, 10000)

    def gap(m: int) -> float:
        return per_message + per_octet * m

    trips = {m: (latency + gap(m) + latency + gap(0), 1e-6, 2e-6) for m in sizes}
    return derive(gap(0), trips, 1e-9)


@given(seconds, seconds, st.floats(0, 1e-6))
def test_what_is_there_is_found(
    latency: float, per_message: float, per_octet: float
) -> None:
    found = network(latency, per_message, per_octet)
    assert found.latency == pytest.approx(latency, rel=1e-6, abs=1e-9)
    for m in (0, 50, 100, 10000, 10**6):
        assert found.gap(m) == pytest.approx(
            per_message + per_octet * m, rel=1e-3, abs=1e-9
        )
    assert (found.send(0), found.receive(0), found.combine) == (1e-6, 2e-6, 1e-9)


@given(seconds, st.lists(seconds, min_size=2, max_size=8))
def test_noise_makes_no_gap_that_falls_and_nothing_negative(
    saturated: float, trips: list[float]
) -> None:
    found = derive(saturated, {100 * i: (t, t, t) for i, t in enumerate(trips)}, 0.0)
    values = [value for _, value in found.gap.points]
    assert all(b - a >= -1e-12 for a, b in pairwise(values))
    assert found.latency >= 0
    assert min(values) >= saturated * (1 - 1e-9)


def test_the_nearest_curve_that_does_not_fall() -> None:
    trips = {m: (t, 0.0, 0.0) for m, t in ((0, 2.0), (1, 4.0), (2, 3.0), (3, 8.0))}
    assert [t for _, t in derive(1.0, trips, 0.0).gap.points] == [1.0, 2.5, 2.5, 7.0]


def test_typical_is_the_median_of_each() -> None:
    found = typical([network(latency, 1e-3, 1e-9) for latency in (1.0, 5.0, 2.0)])
    assert found.latency == pytest.approx(2.0)
    assert found.gap(0) == pytest.approx(1e-3)


def test_parameters_come_back() -> None:
    found = replace(network(1e-4, 1e-5, 1e-9), call=3e-5)
    assert Parameters.of_value(json.loads(json.dumps(found.to_value()))) == found


def test_what_was_measured_before_has_nothing_for_a_call() -> None:
    value = replace(network(1e-4, 1e-5, 1e-9), call=3e-5).to_value()
    del value["call"]
    assert Parameters.of_value(value).call == 0.0


def test_what_a_collective_adds_is_half_of_what_a_round_trip_by_broadcasts_takes_more() -> (
    None
):
    trips = {0: (20e-6, 1e-6, 1e-6), 100: (30e-6, 1e-6, 1e-6)}
    found = derive(5e-6, trips, 0.0, 120e-6)
    assert (found.latency, found.call, found.hop) == pytest.approx((5e-6, 50e-6, 55e-6))
    assert derive(5e-6, trips, 0.0, 10e-6).call == 0.0, "noise"
    assert typical(
        [found, replace(found, call=1.0), replace(found, call=0.0)]
    ).call == pytest.approx(50e-6)


def test_an_end_is_not_busier_than_the_gap() -> None:
    gap = Curve(((0, 10e-6), (1024, 20e-6)))
    fits = Parameters(
        latency=1e-6,
        send=Curve(((0, 14e-6), (1024, 20e-6))),
        receive=gap,
        gap=gap,
        combine=0.0,
    )
    assert contradiction(fits) == "", "within noise"
    late = replace(fits, receive=Curve(((0, 1e-6), (1024, 31e-6))))
    assert contradiction(late) == "o_r(1024) = 31.0 us, but g(1024) = 20.0 us"
    busy = replace(late, send=Curve(((0, 120e-6), (1024, 20e-6))))
    assert contradiction(busy) == "o_s(0) = 120.0 us, but g(0) = 10.0 us"


@pytest.mark.parametrize(
    "change",
    [
        {"latency": "x"},
        {"gap": []},
        {"gap": [[1]]},
        {"gap": [[10, 1.0], [0, 1.0]]},
        {"send": None},
        {"combine": None},
    ],
)
def test_values_that_are_no_parameters(change: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="measure again with impi tune"):
        Parameters.of_value(network(1e-4, 1e-5, 1e-9).to_value() | change)
