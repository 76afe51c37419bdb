"""Octets of one channel in, headers and user data out; and the place of the next octets.

How it works: before each read the caller asks :meth:`Reader.buffer` for memory and reads into it;
:meth:`Reader.received` notes how much came, :meth:`Reader.header` and :meth:`Reader.fill` cut it
into packets. Messages of up to :data:`WHOLE` octets are read ahead, many by one system call. User
data of longer ones goes directly to its place, but for what is read together with a header. While a
long message is on its way nothing is read ahead of a header, so that its user data is never copied.
"""

from __future__ import annotations

from typing import Final

from impi.base.errors import LocalProtocolError
from impi.protocol.transfer.message import Incoming
from impi.protocol.wire.packets import HEADER_SIZE, Header, unpack_header

WHOLE: Final = 64 * 1024
"""Most octets of a short message that is awaited whole in the read-ahead buffer.

One copy of 64 KiB is cheaper than the calls that bring the rest of a message to its place.
"""

# A whole message with its header, and others behind it.
_READ_AHEAD: Final = WHOLE + 8 * 1024


class Reader:
    """Cuts the stream of one channel into packets (IMPI 3.5)."""

    __slots__ = (
        "_fresh", "_header", "_left", "_lent_octets", "_lent_to_stash", "ahead", "body", "end", "lent", "raw", "start",
        "streams",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ahead = memoryview(bytearray(_READ_AHEAD))
        """The read-ahead buffer; octets from :attr:`start` to :attr:`end` are valid."""
        self.start = 0
        self.end = 0
        self._header = self.ahead[:HEADER_SIZE]
        self.body: Incoming | None = None
        """The message whose user data is awaited."""
        self._left = 0
        self.lent: memoryview | None = None
        self._lent_octets = 0  # Octets lent in total if more than lent; else 0
        self._lent_to_stash = False
        self._fresh: list[Incoming] = []
        self.raw = b""
        """The octets of the last header, for reports."""
        self.streams = 0
        """Long messages accepted and not complete; kept by the machine."""

    @property
    def unfinished(self) -> bytes:
        """The octets of the incomplete packet's header so far; empty where the stream may end."""
        return (
            self.raw
            if self.body is not None
            else self.ahead[self.start : self.end].tobytes()
        )

    @property
    def inside(self) -> bool:
        return self.body is not None or self.start < self.end

    def buffer(self, several: bool = False) -> memoryview | list[memoryview]:
        """Return the memory for the next octets; never empty.

        With ``several``, octets that go to several places give a list, for ``recvmsg_into``.
        """

        # Memory lent before is void from here on, so a read that failed can be tried again.
        self._lent_octets = 0
        # The read-ahead buffer is about to be overwritten: a message that no receive has taken yet
        # must move out of it.
        if self._fresh:
            for incoming in self._fresh:
                incoming.own()

            self._fresh.clear()

        if self.body is not None:
            return self._buffer_of(self.body, several)

        if self.start == self.end:
            self.start = self.end = 0
            # While a long message is under way, its next packet is the likely one. Reading the
            # header alone lets recv_into put all user data straight into the program's buffer.
            self.lent = self._header if self.streams else self.ahead
            return self.lent

        # The beginning of a packet moves to the front: headers are unpacked in one piece.
        part = self.end - self.start
        if self.start:
            self.ahead[:part] = self.ahead[self.start : self.end]
            self.start, self.end = 0, part

        # More than a header is there where a short message has come in part.
        self.lent = self.ahead[
            part : HEADER_SIZE if self.streams and part < HEADER_SIZE else _READ_AHEAD
        ]

        return self.lent

    def _buffer_of(
        self, body: Incoming, several: bool
    ) -> memoryview | list[memoryview]:
        self.lent = body.room(self._left)

        self._lent_to_stash = not body.accepted
        if not several or body.scatter is None or self.lent.nbytes == self._left:
            return self.lent

        room = body.scatter.room(self._left)
        self._lent_octets = sum(view.nbytes for view in room)

        return room

    def received(self, nbytes: int) -> None:
        """Note that ``nbytes`` octets were read into :meth:`buffer`; then call :meth:`header`."""

        lent = self.lent

        most, self._lent_octets = self._lent_octets, 0
        if lent is None or not 0 < nbytes <= (most or lent.nbytes):
            raise LocalProtocolError(
                f"{nbytes} octets cannot have been read: no buffer of that size was lent for it"
            )

        self.lent = None

        body = self.body
        if body is None:
            self.end += nbytes
            return

        self._left -= nbytes
        # The octets are in the stash that was lent, but the message has a place by now.
        if self._lent_to_stash and body.accepted:  # accepted between buffer() and here
            body.store(lent[:nbytes])
        else:
            body.filled += nbytes
            if body.scatter is not None:
                body.scatter.skip(nbytes)

    def header(self) -> Header | None:
        """Return the next header, or None while it is incomplete. Only while no user data is
        awaited."""

        start = self.start
        if self.end - start < HEADER_SIZE:
            return None

        self.start = start + HEADER_SIZE
        self.raw = self.ahead[start : self.start].tobytes()

        return unpack_header(self.raw)

    def expect(self, incoming: Incoming, nbytes: int) -> None:
        self.body = incoming
        self._left = nbytes

    def fill(self, body: Incoming) -> bool:
        """Pass read-ahead user data on to :meth:`body`; return whether the packet is complete."""

        nbytes = min(self._left, self.end - self.start)
        if nbytes:
            piece = self.ahead[self.start : self.start + nbytes]
            self.start += nbytes

            self._left -= nbytes
            if body.store(piece):
                self._fresh.append(body)

        if self._left:
            return False

        self.body = None

        return True
