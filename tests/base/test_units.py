"""Sizes, times and rates as users write them."""

from __future__ import annotations

from typing import Any

import pytest

from impi.base.errors import UsageError
from impi.base.units import (
    parse_rate,
    parse_size,
    parse_span,
    parse_time,
    show_size,
    show_time,
)

US = 10**6


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parse_time, "50us", 50 * US),
        (parse_time, "1.5 ms", 1500 * US),
        (parse_time, "0", 0),
        (parse_span, "1.5m", 90.0),
        (parse_span, "0.5s", 0.5),
        (parse_span, "2h", 7200.0),
        (parse_span, "1d", 86400.0),
        (parse_rate, "1.25GB/s", 1_250_000_000),
        (parse_rate, "10Gbit/s", 1_250_000_000),
        (parse_size, "64K", 65536),
        (parse_size, "64KB", 64000),
        (parse_size, "7", 7),
    ],
)
def test_units(parse: Any, text: str, value: int) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_span, "5"),
        (parse_span, "5ms"),
        (parse_time, "5m"),
        (parse_time, "50"),
        (parse_time, "-1us"),
        (parse_rate, "0B/s"),
        (parse_rate, "1GB"),
        (parse_size, "1e3"),
    ],
)
def test_what_is_no_unit_is_said(parse: Any, text: str) -> None:
    with pytest.raises(UsageError, match=r"such as|at least"):
        parse(text)


def test_shown_with_three_digits() -> None:
    assert [show_time(t) for t in (5, 1250 * 10**3, 99 * US, 2 * 10**14)] == [
        "5 ps",
        "1.25 us",
        "99.0 us",
        "200 s",
    ]
    assert show_size(1_280_000_000) == "1.28 GB"
