"""The two ends of a message as the caller of :class:`impi.protocol.transfer.Transfer` sees them.

How it works: :class:`Outgoing` lends its views to packets and says when they are free again.
:class:`Incoming` begins with a header. Its octets go to a *stash* until the message is accepted,
then to the accepted place. :class:`Arrived` and :class:`Cancelled` are the events.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from impi.base.records import record
from impi.protocol.transfer.scatter import Scatter
from impi.protocol.wire.packets import Header, PacketType

# Octets that are dropped are read to here. All messages share it, because it is never read.
_NOWHERE: Final = memoryview(bytearray(64 * 1024))


class Outgoing:
    """A message being sent. The caller may read ``done``, ``handed`` and ``cancelled``.

    Args:
        dest: rank in MPI_COMM_WORLD.
        header: that of the first packet.
        views: the user data, as octets.
    """

    __slots__ = (
        "_at",
        "_index",
        "_views",
        "acknowledged",
        "asked",
        "cancelled",
        "dest",
        "done",
        "drqid",
        "handed",
        "header",
        "nbytes",
        "started",
        "synchronous",
        "taken",
    )

    def __init__(self, dest: int, header: Header, views: Sequence[memoryview]) -> None:
        self.dest = dest
        self.header = header
        self.nbytes = header.msglen
        self.synchronous = header.pk_type == PacketType.DATASYNC
        """Whether a SYNCACK ends it: synchronous mode, or longer than one packet (IMPI 3.7)."""
        self.done = False
        """The buffer may be reused; no SYNCACK and no answer to a cancellation is outstanding."""
        self.handed = False
        """Every octet has been given to TCP."""
        self.cancelled: bool | None = None
        """Result of a cancellation; None while there is none."""
        self.started = False
        """The first packet is on its way: from now on cancelling needs the peer (IMPI 3.7.4)."""
        self.acknowledged = False
        """The SYNCACK has come."""
        self.asked = False
        """A CANCEL is queued or sent, and not answered."""
        self.drqid = 0
        self.taken = 0
        """Octets put into packets so far."""
        self._views = views
        self._index = 0
        self._at = 0

    def settle(self) -> None:
        """Work out ``done`` again, after anything it depends on has changed."""
        # 3.7.4: once asked, a CANCEL is always answered. Before that the request id may not be used
        # again, so the message is not done although its octets have gone.
        ended = self.handed and (self.acknowledged or not self.synchronous)

        self.done = not self.asked and (self.cancelled is True or ended)
        if self.done:
            # The caller's buffers may be resized or closed from here on
            self._views = ()

    def take(self, nbytes: int) -> list[memoryview]:
        """Return the next ``nbytes`` octets as pieces of the caller's views; never copied."""

        # A derived datatype gives many views (zero-copy); a packet may begin and end inside one.
        self.taken += nbytes

        found: list[memoryview] = []
        while nbytes > 0:
            view = self._views[self._index]

            end = view.nbytes
            if self._at or end > nbytes:
                end = min(self._at + nbytes, end)
                view = view[self._at : end]

            if view.nbytes:
                found.append(view)
                nbytes -= view.nbytes

            self._at = end
            if end == self._views[self._index].nbytes:
                self._index += 1
                self._at = 0

        return found

    def __repr__(self) -> str:
        header = self.header
        return f"<Outgoing to {self.dest}: cid {header.cid}, tag {header.tag}, {self.nbytes} octets, done {self.done}>"


class Incoming:
    """A message that arrives. Its first packet may still be on its way; see ``available``.

    Args:
        source: rank in MPI_COMM_WORLD of the sender.
        header: that of the first packet. Its ``count`` is 0 where the sender does not say it.
    """

    __slots__ = (
        "accepted",
        "available",
        "cancelled",
        "done",
        "filled",
        "header",
        "nbytes",
        "scatter",
        "source",
        "stash",
        "synchronous",
        "view",
    )

    def __init__(self, source: int, header: Header) -> None:
        self.source = source
        self.header = header
        self.nbytes = header.msglen
        """Octets of the whole message."""
        self.synchronous = header.pk_type == PacketType.DATASYNC
        """A SYNCACK is due when it is matched (IMPI 3.7.1, 3.7.2)."""
        self.available = False
        """The first packet has been read completely: a probe may see the message (IMPI 3.7.3)."""
        self.accepted = False
        """The message was matched, and its octets have a place."""
        self.done = False
        """Accepted, and all octets are in the accepted view."""
        self.cancelled = False
        """Taken back by its sender before it was matched."""
        self.filled = 0
        """Octets arrived so far."""
        self.view: memoryview | None = None
        """Memory for the octets, once accepted; None for nowhere, or for :attr:`scatter`."""
        self.scatter: Scatter | None = None
        """The place, if it consists of several."""
        self.stash: memoryview | None = None
        """Octets that arrived before it was accepted; at first in the read-ahead buffer itself."""

    def take_place(self, place: memoryview | Scatter | None) -> None:
        """Accept: octets already here move to ``place``, later ones go there; None drops them."""

        if isinstance(place, Scatter):
            self.scatter = place
        else:
            self.view = place

        self.accepted = True

        # The one copy of a message that came before its receive.
        stash, self.stash = self.stash, None
        if stash is not None:
            self._put(0, stash[: self.filled])

    def store(self, piece: memoryview) -> bool:
        """Take octets that were read elsewhere; True if they stay there until acceptance."""

        start = self.filled

        self.filled = start + piece.nbytes
        if not self.accepted:
            # A view of the read-ahead buffer and no copy: :meth:`own` makes one only if no receive
            # has taken the message by the next read.
            self.stash = piece
            return True

        self._put(start, piece)

        return False

    def _put(self, start: int, piece: memoryview) -> None:
        # With neither place the octets are dropped: the receive was too short for the message.
        if self.view is not None:
            self.view[start : start + piece.nbytes] = piece
        elif self.scatter is not None:
            self.scatter.write(piece)

    def own(self) -> None:
        """Copy octets in a read-ahead buffer to a buffer of our own, unless they have moved or
        gone."""
        # Put off until the buffer is needed again: a receive that is posted finds its message in
        # the same turn, and then the octets are copied once only, to their place.
        if self.stash is not None:
            kept = memoryview(bytearray(self.header.pk_len))
            kept[: self.filled] = self.stash[: self.filled]
            self.stash = kept

    def room(self, nbytes: int) -> memoryview:
        """Return the place of the next ``nbytes`` octets, or of the first of them."""

        if self.view is not None:
            return self.view[self.filled : self.filled + nbytes]

        if self.scatter is not None:
            return self.scatter.room(nbytes)[0]

        if self.accepted:
            return _NOWHERE[:nbytes]

        # Room for the first packet only: of a long message no more comes before the SYNCACK, so an
        # announced length alone allocates nothing.
        if self.stash is None:
            self.stash = memoryview(bytearray(self.header.pk_len))

        return self.stash[self.filled : self.filled + nbytes]

    def settle(self) -> None:
        """Work out ``done`` again; gives back the caller's view when it is."""
        if self.accepted and self.filled == self.nbytes:
            self.done = True
            # A bytearray cannot be resized while a view of it exists, and the
            # buffer is the program's again.
            self.view = self.scatter = None

    def __repr__(self) -> str:
        header, octets = self.header, f"{self.filled} of {self.nbytes} octets"
        return f"<Incoming from {self.source}: cid {header.cid}, tag {header.tag}, {octets}>"


@record
class Arrived:
    """A first header was read. Accept before the next ``get_buffer`` to move octets at most once.

    If a CANCEL was read with it, ``incoming.cancelled`` is True already; :class:`Cancelled`
    follows.
    """

    incoming: Incoming


@record
class Cancelled:
    """An unmatched message was taken back by its sender: forget it (IMPI 3.7.4)."""

    incoming: Incoming
