"""Octets of one channel in, headers and user data out: where the next octets are to be read to.

Small packets are read ahead, many by one system call. Octets of user data that do not arrive with a
header in one such read go directly to where the message belongs. While a long message is on its way
nothing is read ahead of a header, so that its user data is never copied at all.
"""

from __future__ import annotations

from typing import Final

from impi.errors import LocalProtocolError
from impi.transfer.message import Incoming
from impi.wire.packets import HEADER_SIZE, Header, unpack_header

__all__ = ["Reader"]

_READ_AHEAD: Final = 64 * 1024


class Reader:
    """Cuts the stream of one channel into packets (IMPI 3.5)."""

    __slots__ = ("_ahead", "_body", "_end", "_fresh", "_left", "_lent", "_lent_to_stash", "_start", "raw", "streams")

    def __init__(self) -> None:
        self._ahead = memoryview(bytearray(_READ_AHEAD))
        self._start = 0
        self._end = 0
        self._body: Incoming | None = None
        self._left = 0
        self._lent: memoryview | None = None
        self._lent_to_stash = False
        self._fresh: list[Incoming] = []
        self.raw = b""
        """The octets of the last header, for reports."""
        self.streams = 0
        """Long messages accepted and not complete; kept by the machine."""

    @property
    def unfinished(self) -> bytes:
        """The header, as far as it has come, of the packet that is not complete; empty where the stream may end."""
        return self.raw if self._body is not None else self._ahead[self._start : self._end].tobytes()

    def buffer(self) -> memoryview:
        """Where the next octets are to be read to; never empty."""
        for incoming in self._fresh:
            incoming.own()
        self._fresh.clear()
        if self._body is not None:
            self._lent = self._body.room(self._left)
            self._lent_to_stash = not self._body.accepted
            return self._lent
        part = self._end - self._start
        self._ahead[:part] = self._ahead[self._start : self._end]
        self._start, self._end = 0, part
        self._lent = self._ahead[part : HEADER_SIZE if self.streams else _READ_AHEAD]
        return self._lent

    def received(self, nbytes: int) -> None:
        """Note that ``nbytes`` octets were read into :meth:`buffer`; then ask :meth:`advance` until it says no."""
        lent = self._lent
        if lent is None or not 0 < nbytes <= lent.nbytes:
            raise LocalProtocolError(f"{nbytes} octets cannot have been read: no buffer of that size was lent for it")
        self._lent = None
        body = self._body
        if body is None:
            self._end += nbytes
            return
        self._left -= nbytes
        if self._lent_to_stash and body.accepted:  # accepted between buffer() and here
            body.store(lent[:nbytes])
        else:
            body.filled += nbytes

    def header(self) -> Header | None:
        """The next header, or None while it has not arrived completely. Only when no user data is awaited."""
        start = self._start
        if self._end - start < HEADER_SIZE:
            return None
        self._start = start + HEADER_SIZE
        self.raw = self._ahead[start : self._start].tobytes()
        return unpack_header(self.raw)

    def expect(self, incoming: Incoming, nbytes: int) -> None:
        """The next ``nbytes`` octets are user data of ``incoming``."""
        self._body = incoming
        self._left = nbytes

    def body(self) -> Incoming | None:
        """The message whose user data is awaited."""
        return self._body

    def fill(self, body: Incoming) -> bool:
        """Pass on user data of :meth:`body` that has been read ahead; whether the packet is complete."""
        nbytes = min(self._left, self._end - self._start)
        if nbytes:
            piece = self._ahead[self._start : self._start + nbytes]
            self._start += nbytes
            self._left -= nbytes
            if body.store(piece):
                self._fresh.append(body)
        if self._left:
            return False
        self._body = None
        return True
