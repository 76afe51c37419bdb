"""Chapter 3 without octets: the same packets as :class:`impi.protocol.transfer.Transfer`, counted.

It is for jobs that are too large for a transfer machine in each process. Packets, sizes, order and
times are the same; tests compare it with the real machine
(:mod:`impi.tools.simulate.model.transfer_machines`).
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto
from functools import partial
from typing import Final

from impi.protocol.wire.packets import HEADER_SIZE
from impi.tools.simulate.model.fabric import Fabric, Parcel, nothing
from impi.tools.simulate.model.messages import Listener, Message
from impi.tools.simulate.model.shape import Limits

_LANES: Final = 3


class _Kind(Enum):
    FIRST = auto()  # the DATA or DATASYNC that begins a message
    MORE = auto()  # a DATA that continues one
    SYNCACK = auto()
    PROTOACK = auto()


class _Way:
    """One direction between two processes: the sender's credit and queues, the receiver's debt."""

    __slots__ = ("lanes", "sent", "turn", "unacknowledged")

    def __init__(self) -> None:
        self.sent = 0  # packets that use credit and are not acknowledged (IMPI 3.6)
        self.unacknowledged = 0  # packets that have come since the last PROTOACK
        # Queues of SYNCACKs, first packets, and messages that continue; they take turns.
        self.lanes: tuple[deque[Message], deque[Message], deque[Message]] = (
            deque(),
            deque(),
            deque(),
        )
        self.turn = 0


class CountedTransport:
    """See :class:`impi.tools.simulate.model.messages.Transport`."""

    def __init__(self, fabric: Fabric, limits: Limits, listener: Listener) -> None:
        self._fabric, self._limits, self._listener = fabric, limits, listener
        self._ways: dict[tuple[int, int], _Way] = {}

    def send(self, message: Message) -> None:
        way = self._way(message.source, message.dest)
        way.lanes[1].append(message)
        self._pump(message.source, message.dest, way)

    def accept(self, message: Message) -> None:
        self._accepted(message)
        self._pump(
            message.dest, message.source, self._way(message.dest, message.source)
        )
        self._settle(message)

    def quiet(self) -> bool:
        return not any(lane for way in self._ways.values() for lane in way.lanes)

    def _way(self, source: int, dest: int) -> _Way:
        way = self._ways.get((source, dest))
        if way is None:
            way = self._ways[source, dest] = _Way()

        return way

    def _pump(self, source: int, dest: int, way: _Way) -> None:
        while way.sent < self._limits.hiwater and any(way.lanes):
            # Lanes take turns, as in the real machine, so that no kind of
            # packet waits for the end of another.
            while not way.lanes[way.turn]:
                way.turn = (way.turn + 1) % _LANES

            lane, way.turn = way.turn, (way.turn + 1) % _LANES
            message = way.lanes[lane].popleft()

            # Every packet uses credit, but PROTOACKs, which do not come here (IMPI 3.6).
            way.sent += 1
            if lane == 0:
                self._emit(source, dest, _Kind.SYNCACK, message, 0)
            else:
                self._cut(way, message, first=lane == 1)

    def _cut(self, way: _Way, message: Message, *, first: bool) -> None:
        nbytes = min(message.nbytes - message.taken, self._limits.datalen)

        message.taken += nbytes
        # 3.7.2: a long message stops behind its first packet until the SYNCACK comes.
        if not first and message.taken < message.nbytes:
            way.lanes[2].append(message)

        self._emit(
            message.source,
            message.dest,
            _Kind.FIRST if first else _Kind.MORE,
            message,
            nbytes,
        )

    def _emit(
        self, source: int, dest: int, kind: _Kind, message: Message | None, nbytes: int
    ) -> None:
        final = (
            kind in (_Kind.FIRST, _Kind.MORE)
            and message is not None
            and message.taken == message.nbytes
        )
        left = (
            partial(self._listener.sent, message)
            if final and message is not None
            else nothing
        )
        come = partial(self._come, source, dest, kind, message, nbytes)
        self._fabric.packet(Parcel(source, dest, HEADER_SIZE + nbytes, left, come))

    def _come(
        self, source: int, dest: int, kind: _Kind, message: Message | None, nbytes: int
    ) -> None:
        back = self._way(dest, source)
        if message is None:
            # A PROTOACK, which stands for ackmark packets (IMPI 3.6).
            back.sent -= self._limits.ackmark
            self._pump(dest, source, back)
            return

        self._count(source, dest)
        match kind:
            case _Kind.SYNCACK:
                message.acknowledged = True
                back.lanes[2].append(message)
            case _Kind.FIRST:
                message.filled += nbytes
                if self._listener.arrived(message):
                    self._accepted(message)
            case _:
                message.filled += nbytes

        self._pump(dest, source, back)
        if kind is not _Kind.SYNCACK:
            self._settle(message)

    def _count(self, source: int, dest: int) -> None:
        way = self._way(source, dest)

        way.unacknowledged += 1
        if way.unacknowledged == self._limits.ackmark:
            way.unacknowledged = 0
            self._emit(dest, source, _Kind.PROTOACK, None, 0)

    def _accepted(self, message: Message) -> None:
        message.accepted = True
        if message.nbytes > self._limits.datalen:
            self._way(message.dest, message.source).lanes[0].append(message)

    def _settle(self, message: Message) -> None:
        if message.accepted and message.filled == message.nbytes:
            self._listener.received(message)
