"""Traffic with one remote process: credit, queues, and the tables of request ids.

How it works: the path of a pair of processes has the credit of both directions, the lanes of
packets to be sent, and the messages that await an answer, by srqid. It makes packets only when the
channel asks (:meth:`Path.next`), so credit is taken for packets that really go, in their order.
"""

from __future__ import annotations

from typing import Final

from impi.protocol.job import Job, Proc
from impi.protocol.transfer.credit import AckCounter, CreditWindow
from impi.protocol.transfer.lanes import Lanes
from impi.protocol.transfer.message import Incoming, Outgoing
from impi.protocol.wire.packets import (
    HEADER_SIZE,
    SHORT_HEADER,
    Header,
    PacketType,
    pack_header,
)

_DATA: Final = int(PacketType.DATA)
# Most octets of user data that are copied beside their header. The copy spares the system call a
# second piece; longer data goes from the program's memory.
_SHORT_MAX: Final = 4096
_pack_short: Final = SHORT_HEADER.pack_into


class Flight:
    """A packet on its way to TCP."""

    __slots__ = (
        "acknowledges",
        "begun",
        "ends_work",
        "final",
        "left",
        "owner",
        "views",
    )

    def __init__(
        self,
        views: list[memoryview],
        left: int,
        owner: Outgoing | None = None,
        *,
        final: bool = False,
        ends_work: bool,
    ) -> None:
        self.views = views
        """The octets not yet sent, header first."""
        self.left = left
        """Octets left."""
        self.owner = owner
        self.final = final
        """Whether the packet holds the last octets of its owner."""
        self.ends_work = ends_work
        """Whether nothing of the queued item remains after this packet."""
        self.begun = False
        self.acknowledges: AckCounter | None = None
        """The counter that waits for this packet to be on its way, if it is a PROTOACK."""

    @classmethod
    def of_header(cls, header: bytes) -> Flight:
        return cls([memoryview(header)], len(header), ends_work=True)

    def consume(self, nbytes: int) -> None:
        """Note that TCP took ``nbytes`` octets, fewer than are left."""

        # From now on no other packet may go before the rest of this one. Under TLS the next octets
        # offered must even be these, as OpenSSL holds a record that TCP has taken in part.
        self.begun = True
        self.left -= nbytes

        done = 0
        # Fewer octets than are left, as :meth:`Channel.sent` has checked, so
        # this stops before the end.
        while nbytes >= self.views[done].nbytes:
            nbytes -= self.views[done].nbytes
            done += 1

        del self.views[:done]
        if nbytes:
            self.views[0] = self.views[0][nbytes:]


class ShortFrame:
    """Room for one packet past the queues, for all senders of a path's short messages in turn.

    Args:
        pair: the 48 octets that name source and destination in our headers.
        most: most octets of user data that are copied beside their header.
    """

    __slots__ = ("_pair", "filled", "most", "octets")

    def __init__(self, pair: bytes, most: int) -> None:
        self._pair = pair
        self.most = most
        self.octets = memoryview(b"")
        """Header and user data (:meth:`room`)."""
        self.filled: object = None
        """The sender whose header is in :attr:`octets`."""

    def room(self) -> memoryview:
        """Return :attr:`octets`, which are there from the first sender on."""
        if not self.octets:
            self.octets = memoryview(bytearray(HEADER_SIZE + self.most))

        return self.octets

    def fill(self, nbytes: int, lsrank: int, tag: int, cid: int, count: int) -> None:
        """Write the header of a short message into :attr:`octets`, but for its request."""
        _pack_short(
            self.octets,
            0,
            _DATA,
            nbytes,
            self._pair,
            0,
            nbytes,
            lsrank,
            tag,
            cid,
            count,
        )


class Path:
    """Both directions between the local process ``me`` and the remote process ``peer``.

    Counted packets (IMPI 3.6) wait in its lanes until there is credit.
    """

    __slots__ = (
        "_maxdatalen",
        "addresses",
        "awaiting",
        "awake",
        "cancelling",
        "counter",
        "frame",
        "host",
        "lanes",
        "newest",
        "rank",
        "reverse",
        "window",
    )

    def __init__(self, me: Proc, peer: Proc, host: int, job: Job) -> None:
        self.rank = peer.rank
        self.host = host
        """The host that its channel is with."""
        self.addresses = (me.ipv6, me.pid, peer.ipv6, peer.pid)
        """Source and destination, as a header has them."""
        self._maxdatalen = job.maxdatalen
        mine, theirs = (
            p.ipv6 + p.pid.to_bytes(8, "big", signed=True) for p in (me, peer)
        )
        # One frame for all communicators: endpoints of threads have many senders to one process,
        # and the shared frame halves the memory of an endpoint.
        self.frame = ShortFrame(mine + theirs, min(job.maxdatalen, _SHORT_MAX))
        self.reverse = theirs + mine
        """The 48 octets that name source and destination in a header of the peer."""
        self.window = CreditWindow(job.ackmark, job.hiwater)
        self.counter = AckCounter(job.ackmark, job.hiwater)
        self.lanes = Lanes()
        self.awake = False
        """Whether the path is in its channel's round of paths that may send."""
        self.awaiting: dict[int, Outgoing] = {}
        """Messages whose SYNCACK has not come, by srqid."""
        self.cancelling: dict[int, Outgoing] = {}
        """Messages whose CANCEL has not been answered, by srqid."""
        self.newest: dict[int, Incoming] = {}
        """The newest unmatched message of each srqid, which a CANCEL can reach (IMPI 3.7.4)."""

    @property
    def sendable(self) -> bool:
        return self.lanes.queued and self.window.open

    def bare(self, pk_type: PacketType, srqid: int = 0, drqid: int = 0) -> bytes:
        """A packet without user data; what table 3.1 does not list for it is sent as zero."""
        return pack_header(Header(int(pk_type), 0, *self.addresses, srqid, drqid))

    def next(self) -> Flight:
        """Count and build the next packet. Only while :attr:`sendable`."""

        # Credit first: if the caller was wrong this raises, and the packet is still in its lane.
        self.window.take()

        message = self.lanes.pop()
        # An acknowledgement or CANCEL, made when it was queued
        if isinstance(message, bytes):
            return Flight([memoryview(message)], len(message), ends_work=True)

        first = not message.started
        header = self._first_header(message) if first else self._next_header(message)
        octets, nbytes = pack_header(header), header.pk_len
        views = [memoryview(octets), *message.take(nbytes)]

        final = message.taken == message.nbytes
        # After the first packet the message is in no lane until its SYNCACK comes (3.7.2). Behind
        # each further one it goes to the end of its lane, so that long messages share the channel.
        if not (first or final):
            self.lanes.longs.append(message)

        # The first packet ends the queued item. What a SYNCACK asks for
        # later is queued as a new one.
        return Flight(
            views, len(octets) + nbytes, message, final=final, ends_work=first or final
        )

    def _first_header(self, message: Outgoing) -> Header:
        message.started = True
        # Not before: a message that is still in its lane is cancelled without the peer.
        if message.synchronous:
            self.awaiting[message.header.srqid] = message

        return message.header

    def _next_header(self, message: Outgoing) -> Header:
        # 3.7.2: DATA with the receiver's drqid, and the length of the whole message: that it
        # differs from pk_len tells it from a short message.
        first = message.header
        return Header(
            _DATA,
            min(message.nbytes - message.taken, self._maxdatalen),
            *self.addresses,
            first.srqid,
            message.drqid,
            first.msglen,
            first.lsrank,
            first.tag,
            first.cid,
            0,
            first.count,
        )
