"""Traffic with one remote process: credit, queues, and the tables of request ids."""

from __future__ import annotations

from collections import deque
from typing import Final

from impi.job import Proc
from impi.transfer.credit import AckCounter, CreditWindow
from impi.transfer.message import Incoming, Outgoing
from impi.wire.packets import HEADER_SIZE, SHORT_HEADER, Header, PacketType, pack_header

_DATA: Final = int(PacketType.DATA)
_DATASYNC: Final = int(PacketType.DATASYNC)
AFTER_FIRST: Final = 2
"""The lane after that of first packets."""
_SHORT_MAX: Final = 4096
"""Most octets of user data that are copied beside their header, rather than sent as own pieces."""
_pack_short: Final = SHORT_HEADER.pack_into


class Flight:
    """A packet on its way to TCP."""

    __slots__ = ("acknowledges", "begun", "ends_work", "final", "left", "owner", "views")

    def __init__(
        self, views: list[memoryview], left: int, owner: Outgoing | None = None, *, final: bool = False, ends_work: bool
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
        """A packet that is only a header."""
        return cls([memoryview(header)], len(header), ends_work=True)

    def consume(self, nbytes: int) -> None:
        """Note that TCP took ``nbytes`` octets, fewer than are left."""
        self.begun = True
        self.left -= nbytes
        done = 0
        while nbytes >= self.views[done].nbytes:
            nbytes -= self.views[done].nbytes
            done += 1
        del self.views[:done]
        if nbytes:
            self.views[0] = self.views[0][nbytes:]


class Path:
    """Both directions between the local process ``me`` and the remote process ``peer``.

    Counted packets (IMPI 3.6) wait in three lanes, each first in, first out: acknowledgements;
    first packets of messages, and CANCELs behind them; continued long messages, each of which sends
    one packet in turn. The lanes take turns too, so that none can starve another.
    """

    __slots__ = (
        "_dest",
        "_lanes",
        "_maxdatalen",
        "_pair",
        "_src",
        "acks",
        "awaiting",
        "awake",
        "cancelling",
        "counter",
        "filled",
        "firsts",
        "frame",
        "host",
        "longs",
        "newest",
        "rank",
        "reverse",
        "short_max",
        "turn",
        "window",
    )

    def __init__(self, me: Proc, peer: Proc, host: int, *, maxdatalen: int, ackmark: int, hiwater: int) -> None:
        self.rank = peer.rank
        self.host = host
        """The host that its channel is with."""
        self._src = (me.ipv6, me.pid)
        self._dest = (peer.ipv6, peer.pid)
        self._maxdatalen = maxdatalen
        mine, theirs = (p.ipv6 + p.pid.to_bytes(8, "big", signed=True) for p in (me, peer))
        self._pair = mine + theirs
        self.reverse = theirs + mine
        """The 48 octets that name source and destination in a header of the peer."""
        self.short_max = min(maxdatalen, _SHORT_MAX)
        """Most octets of user data of a packet that goes past the queues."""
        self.frame = memoryview(b"")
        """Room for such a packet, for all senders of short messages in turn (:meth:`room`)."""
        self.filled: object = None
        """The sender whose header is in :attr:`frame`."""
        self.window = CreditWindow(ackmark, hiwater)
        self.counter = AckCounter(ackmark, hiwater)
        self.acks: deque[bytes] = deque()
        self.firsts: deque[Outgoing | bytes] = deque()
        self.longs: deque[Outgoing] = deque()
        self._lanes: tuple[deque[bytes], deque[Outgoing | bytes], deque[Outgoing]] = (
            self.acks,
            self.firsts,
            self.longs,
        )
        self.turn = 0
        """The lane that comes next."""
        self.awake = False
        """Whether the path is in its channel's round of paths that may send."""
        self.awaiting: dict[int, Outgoing] = {}
        """Messages whose SYNCACK has not come, by srqid."""
        self.cancelling: dict[int, Outgoing] = {}
        """Messages whose CANCEL has not been answered, by srqid."""
        self.newest: dict[int, Incoming] = {}
        """The newest unmatched message of each srqid, which a CANCEL can reach (IMPI 3.7.4)."""

    @property
    def queued(self) -> bool:
        """Whether anything waits here, for credit or for its turn."""
        return bool(self.acks or self.firsts or self.longs)

    @property
    def sendable(self) -> bool:
        """Whether :meth:`next` may be called."""
        return self.queued and self.window.open

    def bare(self, pk_type: PacketType, srqid: int = 0, drqid: int = 0) -> bytes:
        """A packet without user data; what table 3.1 does not list for it is sent as zero."""
        return pack_header(Header(int(pk_type), 0, *self._src, *self._dest, srqid, drqid))

    def room(self) -> memoryview:
        """Return :attr:`frame`, which a path has from its first sender on."""
        if not self.frame:
            self.frame = memoryview(bytearray(HEADER_SIZE + self.short_max))
        return self.frame

    def fill(self, nbytes: int, lsrank: int, tag: int, cid: int, count: int) -> None:
        """Write the header of a short message into :attr:`frame`, but for its request."""
        _pack_short(self.frame, 0, _DATA, nbytes, self._pair, 0, nbytes, lsrank, tag, cid, count)

    def next(self) -> Flight:
        """Count and build the next packet. Only while :attr:`sendable`."""
        self.window.take()
        turn = self.turn
        while not self._lanes[turn]:
            turn = (turn + 1) % 3
        self.turn = (turn + 1) % 3
        if turn == 2:
            return self._onward(self.longs.popleft())
        entry = self._lanes[turn].popleft()
        if isinstance(entry, bytes):
            return Flight.of_header(entry)
        return self._first(entry)

    def _first(self, message: Outgoing) -> Flight:
        message.started = True
        if message.synchronous:
            self.awaiting[message.srqid] = message
        # 3.7.2: of a long message only this packet is sent unasked, and as DATASYNC.
        nbytes = min(message.nbytes, self._maxdatalen)
        return self._packet(_DATASYNC if message.synchronous else _DATA, message, nbytes, ends_work=True)

    def _onward(self, message: Outgoing) -> Flight:
        nbytes = min(message.nbytes - message.taken, self._maxdatalen)
        final = message.taken + nbytes == message.nbytes
        if not final:
            self.longs.append(message)
        return self._packet(_DATA, message, nbytes, ends_work=final)

    def _packet(self, pk_type: int, message: Outgoing, nbytes: int, *, ends_work: bool) -> Flight:
        header = Header(
            pk_type,
            nbytes,
            *self._src,
            *self._dest,
            message.srqid,
            message.drqid,
            message.nbytes,
            message.lsrank,
            message.tag,
            message.cid,
            0,
            message.count,
        )
        octets = pack_header(header)
        views = [memoryview(octets), *message.take(nbytes)]
        final = message.taken == message.nbytes
        return Flight(views, len(octets) + nbytes, message, final=final, ends_work=ends_work)
