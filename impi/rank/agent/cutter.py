"""Octets of one connection in, whole packets out.

An agent passes packets on unchanged, so each is one piece of memory, header and data together. A
short packet is copied out of the read-ahead buffer. A packet that is not complete gets its full
size at once, and the rest is read straight into it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from impi.base.errors import LocalProtocolError
from impi.protocol.wire.packets import HEADER_SIZE, Header, unpack_header

_READ_AHEAD: Final = 64 * 1024


class Cutter:
    """Cuts the stream of one connection into packets (IMPI 3.5); reads many small ones at once.

    Args:
        check: gets each header and its octets, before anything after it is parsed; returns the
            number of octets of user data.
    """

    __slots__ = (
        "_ahead",
        "_check",
        "_end",
        "_filled",
        "_header",
        "_lent",
        "_packet",
        "_start",
    )

    def __init__(self, check: Callable[[Header, bytes], int]) -> None:
        self._check = check
        self._ahead = memoryview(bytearray(_READ_AHEAD))
        self._start = 0
        self._end = 0
        self._header: Header | None = None
        # A packet that is not complete, at its full size; _filled octets of it are here.
        self._packet: memoryview | None = None
        self._filled = 0
        self._lent = 0

    @property
    def unfinished(self) -> bytes:
        """Octets of an incomplete packet; empty: the stream may end here."""
        if self._packet is not None:
            return self._packet[: self._filled].tobytes()

        return self._ahead[self._start : self._end].tobytes()

    @property
    def inside(self) -> bool:
        return self._packet is not None or self._start < self._end

    def buffer(self) -> memoryview:
        """Return the memory for the next octets; never empty."""
        if self._packet is not None:
            # Nothing of the next packet is read into it, so received() has one packet to look at.
            room = self._packet[self._filled :]
        else:
            # The beginning of a packet moves to the front, so there is always room behind it.
            part = self._end - self._start
            self._ahead[:part] = self._ahead[self._start : self._end]
            self._start, self._end = 0, part
            room = self._ahead[part:]

        self._lent = room.nbytes

        return room

    def received(self, nbytes: int) -> list[tuple[Header, memoryview]]:
        """Return the packets completed by ``nbytes`` more octets in :meth:`buffer`, with headers.

        Raises:
            LocalProtocolError: :meth:`buffer` lent fewer octets.
        """

        if not 0 < nbytes <= self._lent:
            raise LocalProtocolError(
                f"{nbytes} octets cannot have been read: no buffer of that size was lent for it"
            )

        self._lent = 0

        found: list[tuple[Header, memoryview]] = []
        if self._packet is not None and self._header is not None:
            self._filled += nbytes
            if self._filled < self._packet.nbytes:
                return found

            found.append((self._header, self._packet))
            self._packet = None
        else:
            self._end += nbytes

        while self._end - self._start >= HEADER_SIZE:
            octets = self._ahead[self._start : self._start + HEADER_SIZE].tobytes()
            header = unpack_header(octets)
            total = HEADER_SIZE + self._check(header, octets)
            here = min(total, self._end - self._start)
            packet = memoryview(bytearray(total))
            packet[:here] = self._ahead[self._start : self._start + here]

            self._start += here
            if here < total:
                self._header, self._packet, self._filled = header, packet, here
                break

            found.append((header, packet))

        return found
