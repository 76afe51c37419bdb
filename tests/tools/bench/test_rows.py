"""Medians, bounds and rows, there and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.base.errors import UsageError
from impi.tools.bench.rows import (
    Bound,
    Row,
    at_least,
    at_most,
    octets,
    row_from_json,
    row_to_json,
    spread,
)

_NUMBERS = st.lists(st.floats(0.001, 1e9), min_size=1, max_size=20)


def _row(**more: object) -> Row:
    given_: dict[str, object] = {
        "measure": "latency",
        "vendors": "pure+pure",
        "unit": "us",
        "better": "lower",
        **more,
    }
    return Row(**given_)  # type: ignore[arg-type]


@given(_NUMBERS)
def test_a_spread_is_in_order_and_within_the_samples(samples: list[float]) -> None:
    of = spread(samples)
    assert (
        min(samples) * (1 - 1e-12)
        <= of.low
        <= of.median
        <= of.high
        <= max(samples) * (1 + 1e-12)
    )


def test_quartiles() -> None:
    of = spread([1, 2, 3, 4, 5])
    assert (of.low, of.median, of.high) == (2, 3, 4)


def test_touching_spreads_are_not_apart() -> None:
    assert not spread([1, 2, 3]).apart(spread([2.5, 2.5, 2.5]))
    assert spread([1, 2, 3]).apart(spread([2.6, 2.7, 2.8]))
    assert spread([2.6, 2.7, 2.8]).apart(spread([1, 2, 3]))


def test_the_ratio_is_of_pairs_not_of_medians() -> None:
    row = _row(
        values=(1, 20, 300),
        references=(1, 10, 100),
        against="sockets",
        bound=at_most(2),
    )
    assert row.ratio is not None and row.ratio.median == 2
    assert row.holds is True
    slow = _row(
        values=(1, 21, 300),
        references=(1, 10, 100),
        against="sockets",
        bound=at_most(2),
    )
    assert slow.holds is False


@pytest.mark.parametrize(
    ("bound", "text", "right", "wrong"),
    [
        (at_most(2), "<= 2 x", 2.0, 2.01),
        (at_least(0.75), ">= 0.75 x", 0.75, 0.74),
        (at_most(3, "difference", "us"), "<= +3 us", 3.0, 3.1),
        (at_most(5, "value", "%"), "<= 5 %", 5.0, 5.1),
    ],
)
def test_bounds(bound: Bound, text: str, right: float, wrong: float) -> None:
    assert str(bound) == text
    assert bound.holds(right)
    assert not bound.holds(wrong)
    back = row_from_json(row_to_json(_row(bound=bound)))
    assert back.bound == bound


def test_a_difference_is_what_comes_on_top() -> None:
    bound = at_most(3, "difference", "us")
    assert _row(values=(4, 4, 4), references=(1, 1, 1), bound=bound).holds is True
    assert _row(values=(5, 5, 5), references=(1, 1, 1), bound=bound).holds is False


def test_what_was_not_measured_does_not_hold() -> None:
    assert _row(bound=at_most(2), error="lost").holds is False
    assert _row(error="lost").holds is None


def test_a_reference_of_zero_has_no_ratio() -> None:
    assert _row(values=(1, 1), references=(0, 1)).ratio is None


@given(_NUMBERS, st.booleans())
def test_there_and_back(samples: list[float], with_reference: bool) -> None:
    row = _row(
        values=tuple(samples),
        references=tuple(reversed(samples)) if with_reference else (),
        against="sockets" if with_reference else "",
        bound=at_most(2),
        extra={"min": 1.0},
        size=8,
    )
    assert row_from_json(json.loads(json.dumps(row_to_json(row)))) == row


def test_a_row_has_what_is_promised() -> None:
    value = row_to_json(
        _row(values=(2.0,), references=(1.0,), against="sockets", bound=at_most(2))
    )
    assert {
        "measure",
        "value",
        "unit",
        "against",
        "reference",
        "ratio",
        "bound",
        "holds",
        "spread",
        "runs",
    } <= set(value)
    assert (
        value["value"],
        value["reference"],
        value["ratio"],
        value["holds"],
        value["runs"],
    ) == (2, 1, 2, True, 1)


@pytest.mark.parametrize(
    ("broken", "what"),
    [
        ({}, "it has no 'samples'"),
        ({**row_to_json(_row()), "samples": {"values": []}}, "it has no 'references'"),
        ({**row_to_json(_row()), "bound": "about 2 x"}, "a value is of a wrong kind"),
        ({**row_to_json(_row()), "extra": None}, "a value is of a wrong kind"),
    ],
)
def test_a_broken_row_is_one_sentence(broken: dict[str, object], what: str) -> None:
    with pytest.raises(UsageError, match=f"not as 'impi bench' writes it: {what}"):
        row_from_json(broken)


def test_octets() -> None:
    assert [octets(size) for size in (0, 8, 1024, 65536, 1 << 24)] == [
        "",
        "8 B",
        "1 KiB",
        "64 KiB",
        "16 MiB",
    ]
