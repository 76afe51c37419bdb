"""Payloads that follow from a cell's nonce, so that ranks and judge know them without telling each other."""

from __future__ import annotations

import hashlib
import struct

__all__ = ["external_doubles", "external_ints", "numbers", "octets"]


def octets(nonce: str, label: str, size: int) -> bytes:
    """``size`` octets that nobody can guess who does not know the nonce."""
    return hashlib.shake_128(f"{nonce}/{label}".encode()).digest(size)


def numbers(nonce: str, label: str, count: int) -> list[int]:
    """``count`` integers of 0 to 65535: small enough for sums in 4 octets, and exact in a double."""
    return list(struct.unpack(f">{count}H", octets(nonce, label, 2 * count)))


def external_ints(values: list[int]) -> bytes:
    """The integers as external32 stores MPI_INT: 4 octets, big-endian (IMPI 1.2.2)."""
    return struct.pack(f">{len(values)}i", *values)


def external_doubles(values: list[int]) -> bytes:
    """The numbers as external32 stores MPI_DOUBLE: 8 octets, IEEE, big-endian (IMPI 1.2.2)."""
    return struct.pack(f">{len(values)}d", *values)
