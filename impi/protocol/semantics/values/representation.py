"""The form of values in this machine's memory: clients compare it to send unconverted data."""

from __future__ import annotations

import struct
import sys
from ctypes import c_longdouble, sizeof
from typing import Final

_ORDERS: Final = {"little": 1, "big": 2}
# A long double of 1, least octet first, by the bits of its significand; the rest is padding.
_ONES: Final = {
    64: bytes.fromhex("0000000000000080ff3f"),
    113: bytes(14) + bytes.fromhex("ff3f"),
}


def own() -> bytes:
    """Four octets: byte order (1 little, 2 big), octets of long and long double, significand bits.

    All else in a message has one size and form on all machines. Empty if the form of long double is
    unknown.
    """

    one = bytes(c_longdouble(1.0))
    if sys.byteorder == "big":
        one = one[::-1]

    bits = next((bits for bits, known in _ONES.items() if one.startswith(known)), 0)
    if not bits:
        return b""

    return bytes(
        [_ORDERS[sys.byteorder], struct.calcsize("l"), sizeof(c_longdouble), bits]
    )
