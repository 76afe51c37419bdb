"""The transfer machines of all processes, wired by a fabric: real packets and credit, virtual time.

Use it for jobs of some hundred processes only, since each machine knows all remote processes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from impi.base.errors import UsageError
from impi.protocol.options import HostKind
from impi.protocol.transfer import Arrived, Incoming, Outgoing, Transfer
from impi.protocol.wire.packets import HEADER_SIZE, Header, PacketType, unpack_header
from impi.tools.simulate.model.fabric import Fabric, Parcel, nothing
from impi.tools.simulate.model.messages import Listener, Message
from impi.tools.simulate.model.shape import Limits, Shape

MOST_PROCS = 512
_CID = 1


class PacketTransport:
    """See :class:`impi.tools.simulate.model.messages.Transport`.

    Raises:
        UsageError: the job is too large.
    """

    def __init__(
        self,
        fabric: Fabric,
        shape: Shape,
        limits: Limits,
        listener: Listener,
        kind: HostKind,
    ) -> None:
        if shape.size > MOST_PROCS:
            raise UsageError(
                f"the real transfer machines of {shape.size} processes are too many; {MOST_PROCS} can be"
            )

        self._fabric, self._listener = fabric, listener
        self._agents = kind != "proc"
        self._job = shape.job(kind, limits)
        self._machines: dict[int, Transfer] = {}
        # By sender and srqid
        self._messages: dict[tuple[int, int], tuple[Message, Outgoing]] = {}
        # Messages that have arrived and are incomplete
        self._incoming: dict[Message, Incoming] = {}
        self._ranks = {(proc.ipv6, proc.pid): proc.rank for proc in self._job.procs}
        self._octets = bytearray()

    def send(self, message: Message) -> None:
        machine = self._machine(message.source)
        if len(self._octets) < message.nbytes:
            # One buffer for all, because its octets are never read
            self._octets = bytearray(message.nbytes)

        view = memoryview(self._octets)[: message.nbytes]
        out = machine.send(
            message.dest, cid=_CID, tag=message.tag, lsrank=message.source, views=[view]
        )
        self._messages[message.source, out.header.srqid] = message, out
        self._pump(message.source, message.dest)

    def accept(self, message: Message) -> None:
        self._accept(message)
        self._pump(message.dest, message.source)
        self._settle(message)

    def quiet(self) -> bool:
        idle = all(machine.idle for machine in self._machines.values())
        return (
            idle
            and not self._incoming
            and all(out.done for _, out in self._messages.values())
        )

    def _machine(self, rank: int) -> Transfer:
        if rank not in self._machines:
            self._machines[rank] = Transfer(self._job, rank, agent=self._agents)

        return self._machines[rank]

    def _channel(self, rank: int, peer: int) -> int:
        # A proc with an agent has one channel for all peers: that to its own host.
        return self._job.procs[rank if self._agents else peer].host

    def _pump(self, rank: int, peer: int) -> None:
        machine, host = self._machine(rank), self._channel(rank, peer)
        while machine.wants_write(host):
            views = machine.data_to_send(host)
            packets = list(_cut(views))

            machine.sent(host, sum(map(len, views)))
            for header, octets in packets:
                self._emit(rank, header, octets)

    def _emit(self, rank: int, header: Header, octets: list[memoryview]) -> None:
        left = nothing
        if header.pk_type in (PacketType.DATA, PacketType.DATASYNC):
            message, _ = self._messages[rank, header.srqid]

            message.taken += header.pk_len
            if message.taken == message.nbytes:
                left = partial(self._listener.sent, message)

        dest = self._ranks[header.dest_ipv6, header.dest_pid]
        come = partial(self._come, rank, dest, octets)
        self._fabric.packet(Parcel(rank, dest, sum(map(len, octets)), left, come))

    def _come(self, source: int, dest: int, octets: list[memoryview]) -> None:
        machine, host = self._machine(dest), self._channel(dest, source)
        for piece in octets:
            at = 0
            while at < len(piece):
                # The machine says where the next octets belong, and how many it wants there.
                room = machine.get_buffer(host)
                n = min(len(room), len(piece) - at)
                room[:n] = piece[at : at + n]

                at += n
                for event in machine.received(host, n):
                    assert isinstance(event, Arrived), "no call cancels"
                    self._arrived(event.incoming)

        self._pump(dest, source)
        for message in [m for m, i in self._incoming.items() if i.done]:
            self._settle(message)

    def _arrived(self, incoming: Incoming) -> None:
        message, _ = self._messages[incoming.source, incoming.header.srqid]

        self._incoming[message] = incoming
        if self._listener.arrived(message):
            self._accept(message)

    def _accept(self, message: Message) -> None:
        incoming = self._incoming[message]
        assert incoming.nbytes == message.nbytes
        self._machine(message.dest).accept(incoming, None)

    def _settle(self, message: Message) -> None:
        incoming = self._incoming[message]
        if incoming.done:
            del self._incoming[message]
            self._listener.received(message)


def _cut(views: list[memoryview]) -> Iterator[tuple[Header, list[memoryview]]]:
    """Return the packets in a machine's output; each begins with a view that is its header."""
    at = 0
    while at < len(views):
        header = unpack_header(views[at])
        packet, left = [views[at]], 0

        assert len(views[at]) == HEADER_SIZE
        if header.pk_type in (PacketType.DATA, PacketType.DATASYNC):
            left = header.pk_len

        at += 1
        while left:
            packet.append(views[at])
            left -= len(views[at])
            at += 1

        yield header, packet
