"""Test data: values that follow from a type, a count and a seed, and their octets in external32.

The interpreter has the same few lines, so that no data has to be sent to it. Values are small, and
each element differs from its neighbours.
"""

from __future__ import annotations

import re
import struct
import zlib
from typing import Final

from impi.base.errors import UsageError

FORMS: Final = {
    "byte": "B",
    "char": "b",
    "short": "h",
    "int": "i",
    "long": "i",
    "float": "f",
    "double": "d",
}
"""Codes of :mod:`struct`, big-endian, by type: external32 (1.2.2), where MPI_LONG has 4 octets."""
SHOWN: Final = 32
"""Most octets that a report shows; of longer data it has the length and the Adler-32."""


def elements(kind: str, count: int, seed: int, gap: int = 0) -> list[int]:
    """Return the values of ``count`` elements, from element ``gap`` on."""
    found = [seed * 37 + (i + gap) * 11 + (i + gap) // 23 for i in range(count)]
    if kind == "byte":
        return [value % 256 for value in found]

    return (
        [value % 100 for value in found]
        if kind == "char"
        else [value % 30000 for value in found]
    )


def encode(kind: str, values: list[int]) -> bytes:
    """Return values as external32 octets.

    Raises:
        UsageError: no such type.
    """
    if kind not in FORMS:
        raise UsageError(
            f"there is no type {kind!r} of test data; there are {', '.join(FORMS)}"
        )

    return struct.pack(f">{len(values)}{FORMS[kind]}", *values)


def decode(kind: str, octets: bytes) -> list[int]:
    """Return the values of external32 octets."""
    size = struct.calcsize(FORMS[kind])
    return [
        int(value)
        for value in struct.unpack(f">{len(octets) // size}{FORMS[kind]}", octets)
    ]


def size_of(kind: str) -> int:
    """Return the octets of one element in external32."""
    return len(encode(kind, [0]))


def octets(kind: str, count: int, seed: int, gap: int = 0) -> bytes:
    """Return the octets of ``count`` elements of a seed."""
    return encode(kind, elements(kind, count, seed, gap))


def parse(text: str) -> bytes:
    """Return the octets of ``TYPE:COUNT:SEED`` or ``hex:00ff``.

    Raises:
        UsageError: it is neither.
    """

    if text.startswith("hex:"):
        try:
            return bytes.fromhex(text[4:])
        except ValueError:
            raise UsageError(f"{text[4:]!r} are not octets in hexadecimal") from None

    match = re.fullmatch(r"(\w+):(\d+):(\d+)", text)
    if match is None:
        raise UsageError(
            f"{text!r} is not test data; write TYPE:COUNT:SEED or hex:00ff"
        )

    return octets(match[1], int(match[2]), int(match[3]))


def shown(data: bytes) -> str:
    """Return the text for these octets in a report of the interpreter."""
    return data.hex() if len(data) <= SHOWN else f"{len(data)}/{zlib.adler32(data):08x}"
