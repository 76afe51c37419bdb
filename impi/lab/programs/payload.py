"""Payloads derived from a cell's nonce, known to ranks and judge without communication."""

from __future__ import annotations

import hashlib
import operator
import struct
from collections.abc import Callable

# The predefined operations on two integers, by name.
COMBINE: dict[str, Callable[[int, int], int]] = {
    "MAX": max,
    "MIN": min,
    "SUM": operator.add,
    "PROD": operator.mul,
    "LAND": lambda a, b: int(bool(a) and bool(b)),
    "BAND": operator.and_,
    "LOR": lambda a, b: int(bool(a) or bool(b)),
    "BOR": operator.or_,
    "LXOR": lambda a, b: int(bool(a) != bool(b)),
    "BXOR": operator.xor,
}
# Letters of struct by numpy's codes.
LETTERS = {
    "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q", "f4": "f", "f8": "d",
}  # fmt: skip


def octets(nonce: str, label: str, size: int) -> bytes:
    """Return ``size`` octets that only those can know who know the nonce."""
    return hashlib.shake_128(f"{nonce}/{label}".encode()).digest(size)


def numbers(nonce: str, label: str, count: int) -> list[int]:
    """Return ``count`` integers from 0 to 65535: sums fit 4 octets, and are exact in a double."""
    return list(struct.unpack(f">{count}H", octets(nonce, label, 2 * count)))


def external(code: str, values: list[int]) -> bytes:
    """Return numbers as external32 elements of numpy's ``code``, such as ``u2`` (IMPI 1.2.2)."""
    return struct.pack(f">{len(values)}{LETTERS[code]}", *values)


def parts(letters: str, values: list[int], order: str = ">") -> bytes:
    """Return values of several parts, each part by its letter of struct, or ``g`` for a binary128.

    The second part of a value is one more than the first, as in complex numbers and pairs.
    """
    out = []
    for value in values:
        for more, letter in enumerate(letters):
            one = value + more
            out.append(
                binary128(one) if letter == "g" else struct.pack(order + letter, one)
            )

    return b"".join(out)


def binary128(value: int) -> bytes:
    """Return a small natural number as binary128, external32's big-endian long double."""
    if value == 0:
        return bytes(16)

    high = value.bit_length() - 1

    return ((16383 + high) << 112 | (value - (1 << high)) << (112 - high)).to_bytes(
        16, "big"
    )


def external_ints(values: list[int]) -> bytes:
    """Return integers in external32's form of MPI_INT: 4 octets, big-endian (IMPI 1.2.2)."""
    return struct.pack(f">{len(values)}i", *values)


def external_doubles(values: list[int]) -> bytes:
    """Return numbers in external32's form of MPI_DOUBLE: 8 octets, big-endian (IMPI 1.2.2)."""
    return struct.pack(f">{len(values)}d", *values)
