"""Times, sizes and rates as users write them, and back."""

from __future__ import annotations

import re
from typing import Final

from impi.base.errors import UsageError

SECOND: Final = 10**12
MAX_PORT: Final = 65535

_DIGITS: Final = 30  # more than any number of use has
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
    """Return the number in digits of ASCII, fewer than ten; None: the text is none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _DIGITS_OF_COUNT else None


def parse_port(text: str) -> int | None:
    """Return the number of a TCP port; None: the text is none."""
    port = parse_count(text)
    return port if port is not None and port <= MAX_PORT else None


def parse_bit_rate(text: str) -> int:
    """Octets a second in ``10mbit``, as tc writes rates; at least one. Raises UsageError."""
    rate = _parse(text, "a rate", _BIT_RATES, "10mbit") // 8
    if rate < 1:
        raise UsageError(f"the rate {text!r} moves nothing; give at least 8bit")
    return rate


def parse_share(text: str) -> float:
    """0.01 for ``1%``. Raises UsageError."""
    match = _NUMBER.fullmatch(text.removesuffix("%"))
    if not text.endswith("%") or match is None or match[2] or float(match[1]) > 100:
        raise UsageError(f"{text!r} is not a share; write a number from 0 to 100 and %, such as 1%")
    return float(match[1]) / 100


def parse_time(text: str) -> int:
    """Picoseconds in ``50us``; a plain 0 needs no unit. Raises UsageError."""
    return 0 if text == "0" else _parse(text, "a time", _TIMES, "50us")


def parse_span(text: str) -> float:
    """Seconds in ``90s``, ``15m``, ``2h`` or ``1d``. Raises UsageError."""
    return _parse(text, "a span of time", _SPANS, "90s") / SECOND


def parse_size(text: str) -> int:
    """Octets in ``64KiB``, ``64K`` (both 65536), ``64KB`` (64000) or ``64``. Raises UsageError."""
    return _parse(text, "a size", _SIZES, "64KiB")


def parse_rate(text: str) -> int:
    """Octets a second in ``1.25GB/s`` or ``10Gbit/s``, at least one. Raises UsageError."""
    rate = _parse(text, "a rate", _RATES, "1.25GB/s")
    if rate < 1:
        raise UsageError(f"the rate {text!r} moves nothing; give at least 1B/s")
    return rate


def _parse(text: str, what: str, units: dict[str, int], example: str) -> int:
    match = _NUMBER.fullmatch(text.strip())
    if match is None or match[2] not in units:
        known = ", ".join(unit for unit in units if unit)
        raise UsageError(f"{text!r} is not {what}; write a number and one of {known}, such as {example}")
    if len(match[1]) > _DIGITS:
        raise UsageError(f"{text[:_DIGITS]!r}... is too large for {what}")
    return round(float(match[1]) * units[match[2]]) if "." in match[1] else int(match[1]) * units[match[2]]


def show_time(ps: int) -> str:
    """Three digits and a unit: ``1.25 ms``."""
    return _show(ps, (("ps", 1), ("ns", 10**3), ("us", 10**6), ("ms", 10**9), ("s", SECOND)))


def show_size(octets: int) -> str:
    """Three digits and a decimal unit: ``1.28 GB``."""
    return _show(octets, (("B", 1), ("KB", 10**3), ("MB", 10**6), ("GB", 10**9), ("TB", 10**12), ("PB", 10**15)))


def show_rate(octets: int) -> str:
    """Three digits and a decimal unit a second; 0 is no limit."""
    return f"{show_size(octets)}/s" if octets else "no limit"


def _show(value: int, units: tuple[tuple[str, int], ...]) -> str:
    name, size = next((unit for unit in reversed(units) if value >= unit[1]), units[0])
    scaled = value / size
    digits = 0 if size == 1 or scaled >= 100 else 1 if scaled >= 10 else 2
    return f"{scaled:.{digits}f} {name}"
