"""Parse times, sizes and rates as users write them, and show them.

Times are integers in picoseconds, so that the simulator adds them without rounding.
"""

from __future__ import annotations

import re
from typing import Final

from impi.base.errors import UsageError

SECOND: Final = 10**12
MAX_PORT: Final = 65535

_DIGITS: Final = 30  # more digits than any useful number has
_DIGITS_OF_COUNT: Final = 10
_NUMBER: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z/]*)", re.ASCII)
_TIMES: Final = {"s": SECOND, "ms": 10**9, "us": 10**6, "ns": 10**3, "ps": 1}
_SPANS: Final = {"s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND, "d": 86400 * SECOND}
_SIZES: Final = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "K": 2**10,
    "M": 2**20,
    "G": 2**30,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_RATES: Final = {
    "B/s": 1,
    "KB/s": 10**3,
    "MB/s": 10**6,
    "GB/s": 10**9,
    "Kbit/s": 125,
    "Mbit/s": 125 * 10**3,
    "Gbit/s": 125 * 10**6,
}

_BIT_RATES: Final = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}


def parse_count(text: str) -> int | None:
    """Return a number of at most nine ASCII digits; None: the text is no such number."""
    return (
        int(text)
        if text.isascii() and text.isdecimal() and len(text) < _DIGITS_OF_COUNT
        else None
    )


def parse_port(text: str) -> int | None:
    """Return the number of a TCP port; None: the text is no such number."""
    port = parse_count(text)
    return port if port is not None and port <= MAX_PORT else None


def parse_bit_rate(text: str) -> int:
    """Return octets a second for a rate in tc's form, such as ``10mbit``; UsageError: malformed."""
    rate = _parse(text, "a rate", _BIT_RATES, "10mbit") // 8
    if rate < 1:
        raise UsageError(f"the rate {text!r} moves nothing; give at least 8bit")

    return rate


def parse_share(text: str) -> float:
    """Return 0.01 for ``1%``; UsageError: malformed, or above 100 %."""
    match = _NUMBER.fullmatch(text.removesuffix("%"))
    if not text.endswith("%") or match is None or match[2] or float(match[1]) > 100:
        raise UsageError(
            f"{text!r} is not a share; write a number from 0 to 100 and %, such as 1%"
        )

    return float(match[1]) / 100


def parse_time(text: str) -> int:
    """Return picoseconds for a time such as ``50us`` or ``0``; UsageError: malformed."""
    return 0 if text == "0" else _parse(text, "a time", _TIMES, "50us")


def parse_span(text: str) -> float:
    """Return seconds for ``90s``, ``15m``, ``2h`` or ``1d``; UsageError: malformed."""
    return _parse(text, "a span of time", _SPANS, "90s") / SECOND


def parse_size(text: str) -> int:
    """Return octets for ``64KiB``, ``64K`` (both 65536), ``64KB`` (64000) or ``64``.

    Raises:
        UsageError: the text is malformed.
    """
    return _parse(text, "a size", _SIZES, "64KiB")


def parse_rate(text: str) -> int:
    """Return octets a second for ``1.25GB/s`` or ``10Gbit/s``; UsageError: malformed or 0."""
    rate = _parse(text, "a rate", _RATES, "1.25GB/s")
    if rate < 1:
        raise UsageError(f"the rate {text!r} moves nothing; give at least 1B/s")

    return rate


def _parse(text: str, what: str, units: dict[str, int], example: str) -> int:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2] not in units:
        known = ", ".join(unit for unit in units if unit)
        raise UsageError(
            f"{text!r} is not {what}; write a number and one of {known}, such as {example}"
        )

    # Python refuses to read thousands of digits, by an error that names no option.
    if len(match[1]) > _DIGITS:
        raise UsageError(f"{text[:_DIGITS]!r}... is too large for {what}")

    return (
        # Whole numbers do without floats, which would round them beyond 2^53.
        round(float(match[1]) * units[match[2]])
        if "." in match[1]
        else int(match[1]) * units[match[2]]
    )


def show_time(ps: int) -> str:
    """Return a time in picoseconds as three digits and a unit: ``1.25 ms``."""
    return _show(
        ps, (("ps", 1), ("ns", 10**3), ("us", 10**6), ("ms", 10**9), ("s", SECOND))
    )


def show_size(octets: int) -> str:
    """Return octets as three digits and a decimal unit: ``1.28 GB``."""
    return _show(
        octets,
        (
            ("B", 1),
            ("KB", 10**3),
            ("MB", 10**6),
            ("GB", 10**9),
            ("TB", 10**12),
            ("PB", 10**15),
        ),
    )


def show_rate(octets: int) -> str:
    """Return octets a second as three digits and a decimal unit; 0 means no limit."""
    return f"{show_size(octets)}/s" if octets else "no limit"


def _show(value: int, units: tuple[tuple[str, int], ...]) -> str:
    name, size = next((unit for unit in reversed(units) if value >= unit[1]), units[0])
    scaled = value / size
    digits = 0 if size == 1 or scaled >= 100 else 1 if scaled >= 10 else 2

    return f"{scaled:.{digits}f} {name}"
