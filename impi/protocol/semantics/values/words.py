"""Reversal of the octets of consecutive numbers, without numpy.

Short messages are faster this way than as numpy arrays, and many programs never load numpy.
"""

from __future__ import annotations

from array import array
from typing import Final

from impi.protocol.semantics import lazynumpy

_CODES: Final = {2: "H", 4: "I", 8: "Q"}
# Octets at a time, so that the two copies of each stay in the nearest caches.
_CHUNK: Final = 1 << 15
# Octets from which numpy is quicker, where it is loaded anyway
_NUMPY_FROM: Final = 1 << 14


def worth(nbytes: int) -> bool:
    """Whether ``nbytes`` octets are better turned here than as an array of numpy."""
    return nbytes < _NUMPY_FROM or not lazynumpy.loaded()


def turned(data: bytes | bytearray | memoryview, width: int) -> memoryview:
    """A copy of numbers of ``width`` octets (2, 4 or 8), the octets of each in the other order."""

    words = array(_CODES[width])
    words.frombytes(data)
    words.byteswap()

    # An empty view cannot be cast
    return memoryview(words).cast("B") if words else memoryview(bytearray())


def turn(
    source: bytes | bytearray | memoryview, target: memoryview, width: int
) -> None:
    """Reverse ``source`` into ``target``, which has as many octets; both may be the same memory."""
    view = memoryview(source)
    for begin in range(0, view.nbytes, _CHUNK):
        # Each chunk is a copy of its own, so source and target may be the same memory.
        target[begin : begin + _CHUNK] = turned(view[begin : begin + _CHUNK], width)
