"""What arrives: each packet is checked against the clause it must obey, counted, and carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from impi.errors import LocalProtocolError, PeerError
from impi.job import Job, Proc
from impi.transfer.channel import Channel
from impi.transfer.message import Arrived, Cancelled, Incoming
from impi.transfer.path import Path
from impi.wire.packets import HEADER_SIZE, SHORT_HEADER, Header, PacketType

__all__ = ["FOR_THE_REST", "NOTHING_YET", "NOT_NOTED", "Acknowledge", "Deliver", "Event", "Inbound"]

Event = Arrived | Cancelled
Deliver = Callable[[int, int, int, int, memoryview], bool]
"""Takes a whole short message to the receive that waits for it: source (its rank in MPI_COMM_WORLD), cid, tag, count,
octets, which are good until it returns. False: nobody waits, and nothing was done.
"""

Acknowledge = Callable[[int, bytes], None]
"""Sends a rank in MPI_COMM_WORLD a PROTOACK that is due, past the queues, in which there is nothing."""

NOT_NOTED: Final = -1
"""Nothing was done: a function of :meth:`Inbound.shorts` is to take the octets."""
NOTHING_YET: Final = -2
"""All was taken, and is something else."""
FOR_THE_REST: Final = -3
"""All was noted; :meth:`Inbound.rest` takes it, or something is to be written."""

_DATA: Final = int(PacketType.DATA)
_DATASYNC: Final = int(PacketType.DATASYNC)
_PROTOACK: Final = int(PacketType.PROTOACK)
_FINI: Final = int(PacketType.FINI)
_AFTER_FINI: Final = frozenset({PacketType.PROTOACK, PacketType.SYNCACK, PacketType.CANCELYES, PacketType.CANCELNO})

_LONGEST: Final = (1 << 63) - 1
"""Octets of the longest message that any machine could hold; pk_msglen can say more."""

_PARTLY: Final = 4096
"""Most octets of a short message that waits in the read-ahead buffer until all of it is there."""
_unpack_short: Final = SHORT_HEADER.unpack_from


class Inbound:
    """The receiving side of a :class:`impi.transfer.Transfer`, for all its channels.

    Args:
        job: the limits.
        me: the process that packets must be for.
        channels: by host.
        paths: by rank.
        queued: to be told of a path to which a counted packet was added.
    """

    def __init__(
        self,
        job: Job,
        me: Proc,
        channels: Mapping[int, Channel],
        paths: Mapping[int, Path],
        queued: Callable[[Path], None],
    ) -> None:
        self._job = job
        self._me = me
        self._channels = channels
        self._paths = paths
        self._queued = queued
        self._ranks = {(proc.ipv6, proc.pid): proc.rank for proc in job.procs}
        self._reverse = {path.reverse: path for path in paths.values()}
        self._receiving: dict[int, Incoming] = {}
        self._drqid = 0
        self.destroys = False
        """We have finished: messages that arrive are destroyed, and only counted (IMPI 3.8)."""
        self._handlers: dict[int, Callable[[Channel, Path, Header], Event | None]] = {
            PacketType.SYNCACK: self._on_syncack,
            PacketType.CANCEL: self._on_cancel,
            PacketType.CANCELYES: self._on_cancelyes,
            PacketType.CANCELNO: self._on_cancelno,
        }

    def handle(self, incoming: Incoming) -> int:
        """The drqid by which packets that follow the first name an accepted message; 0 if none follow."""
        if incoming.nbytes == incoming.first:
            return 0
        self._drqid += 1
        self._receiving[self._drqid] = incoming
        self._channels[self._paths[incoming.source].host].reader.streams += 1
        return self._drqid

    def rest(self, channel: Channel) -> list[Event]:
        """Carry out what is complete of the octets that were read."""
        reader = channel.reader
        events: list[Event] = []
        while True:
            body = reader.body
            if body is not None:
                if not reader.fill(body):
                    return events
                self._packet_read(channel, body)
            header = reader.header()
            if header is None:
                return events
            event = self._on_header(channel, header)
            if event is not None:
                events.append(event)

    def shorts(self, channel: Channel, deliver: Deliver, acknowledge: Acknowledge) -> Callable[[int], bool]:
        """A function that takes so many octets that were read on ``channel`` as far as they are short messages that are
        waited for, and PROTOACKs. False: there is more, for :meth:`rest`.

        It takes no packet of which anything is wrong: then the long way finds what.
        """
        reader, host, reverse = channel.reader, channel.host.index, self._reverse
        ahead, limit, tag_ub, ackmark = reader.ahead, self._job.maxdatalen, self._job.tag_ub, self._job.ackmark
        partly = min(limit, _PARTLY)

        def take(nbytes: int) -> bool:
            lent = reader.lent
            if lent is None or reader.body is not None or not 0 < nbytes <= len(lent):
                reader.received(nbytes)
                return False
            reader.lent = None
            reader.end = end = reader.end + nbytes
            start = reader.start
            if self.destroys or channel.fini_received:
                return False
            while end - start >= HEADER_SIZE:
                kind, length, pair, _, msglen, lsrank, tag, cid, count = _unpack_short(ahead, start)
                path = reverse.get(pair)
                if path is None or path.host != host:
                    break
                begin = start + HEADER_SIZE
                if kind == _PROTOACK:
                    reader.raw = ahead[start:begin].tobytes()
                    reader.start = start = begin
                    self._on_protoack(channel, path)
                    continue
                if kind != _DATA or length != msglen or length > limit or lsrank < 0 or not 0 <= tag <= tag_ub:
                    break
                stop = begin + length
                if stop > end and length <= partly:
                    end = start  # so little that its rest may come after it, to be copied once
                    continue
                if stop > end or not deliver(path.rank, cid, tag, count, ahead[begin:stop]):
                    break
                reader.start = stop
                counter = path.counter
                if not counter.held and counter.unacknowledged + 1 < ackmark:
                    counter.unacknowledged += 1
                elif stop < end or counter.held or channel.work:
                    # Who has sent more already may be beyond hiwater: the queues know what was given to TCP.
                    reader.raw = ahead[start:begin].tobytes()
                    self._count(channel, path)
                else:
                    counter.unacknowledged = 0
                    acknowledge(path.rank, path.bare(PacketType.PROTOACK))
                start = stop
            else:
                return not channel.work
            return False

        return take

    def single(
        self, channel: Channel, path: Path, cid: int, acknowledge: Acknowledge
    ) -> Callable[[int, int, memoryview], int]:
        """A function that takes so many octets that were read on ``channel`` where they are one short message, of a
        tag, from ``path`` on context ``cid``, after PROTOACKs if need be, and puts it into its third argument.

        As :meth:`shorts`, for who knows what comes next, and that nobody else waits for it. Its result are the octets
        of the message, or one of :data:`NOTHING_YET`, :data:`FOR_THE_REST`, :data:`NOT_NOTED`.
        """
        reader, pair, counter, reverse, host = channel.reader, path.reverse, path.counter, self._reverse, path.host
        ahead, limit, ackmark = reader.ahead, self._job.maxdatalen, self._job.ackmark
        answer = path.bare(PacketType.PROTOACK)

        def take(nbytes: int, tag: int, place: memoryview) -> int:
            if nbytes < HEADER_SIZE or reader.end or reader.body is not None or channel.fini_received or self.destroys:
                return NOT_NOTED
            start = 0
            kind, length, sender, _, msglen, lsrank, its_tag, its_cid, _ = _unpack_short(ahead)
            if kind == _PROTOACK:
                other = reverse.get(sender)
                if reader.lent is None or other is None or other.host != host:
                    return NOT_NOTED
                reader.lent = None
                reader.raw = ahead[:HEADER_SIZE].tobytes()
                reader.start, reader.end = HEADER_SIZE, nbytes
                self._on_protoack(channel, other)
                if nbytes < 2 * HEADER_SIZE or channel.work:
                    return NOTHING_YET if nbytes == HEADER_SIZE and not channel.work else FOR_THE_REST
                start = HEADER_SIZE
                kind, length, sender, _, msglen, lsrank, its_tag, its_cid, _ = _unpack_short(ahead, start)
            begin = start + HEADER_SIZE
            if (
                sender != pair
                or its_tag != tag
                or its_cid != cid
                or kind != _DATA
                or length != nbytes - begin
                or length != msglen
                or length > limit
                or length > len(place)
                or lsrank < 0
                or counter.held
            ):
                return FOR_THE_REST if start else NOT_NOTED
            place[:length] = ahead[begin:nbytes]
            reader.lent = None
            reader.start = reader.end = 0
            if counter.unacknowledged + 1 < ackmark:
                counter.unacknowledged += 1
            elif channel.work:
                self._count(channel, path)
            else:
                counter.unacknowledged = 0
                acknowledge(path.rank, answer)
            return nbytes - begin

        return take

    def _on_header(self, channel: Channel, header: Header) -> Event | None:
        kind = header.pk_type
        if channel.fini_received and kind not in _AFTER_FINI:
            raise _fault(channel, f"sent a packet of type {kind} after its finalization packet", "3.8")
        if kind == _FINI:
            # Only the type means anything (table 3.1): nothing else in it is looked at.
            channel.fini_received = True
            if channel.closed:
                channel.close()
            return None
        if not 0 <= kind <= _FINI:
            raise _fault(channel, f"sent a packet of unknown type {kind}", "3.5")
        path = self._sender(channel, header)
        if kind in (_DATA, _DATASYNC):
            return self._on_data(channel, path, header)
        if kind == _PROTOACK:
            self._on_protoack(channel, path)
            return None
        event = self._handlers[kind](channel, path, header)
        self._count(channel, path)
        return event

    def _sender(self, channel: Channel, header: Header) -> Path:
        source = self._ranks.get((header.src_ipv6, header.src_pid))
        path = self._paths.get(source) if source is not None else None
        if path is None or path.host != channel.host.index:
            who = "a process that is not in this job" if source is None else f"rank {source}, which is not one of its"
            raise _fault(channel, f"sent a packet from {who} (pid {header.src_pid})", "3.2")
        if header.dest_pid != self._me.pid or header.dest_ipv6 != self._me.ipv6:
            rank = self._ranks.get((header.dest_ipv6, header.dest_pid))
            who = "a process that is not in this job" if rank is None else f"rank {rank}, which is not served here"
            raise _fault(channel, f"sent a packet for {who} (pid {header.dest_pid})", "3.2")
        return path

    def _count(self, channel: Channel, path: Path) -> None:
        # 3.6: on arrival, matched or not; and the answer waits for nothing, least of all for credit.
        try:
            due = path.counter.received()
        except PeerError as error:
            raise _fault(channel, error.message, error.clause) from error
        if due:
            channel.acknowledge(path)

    def _packet_read(self, channel: Channel, incoming: Incoming) -> None:
        incoming.available = True
        self._count(channel, self._paths[incoming.source])
        incoming.settle()

    # Data

    def _on_data(self, channel: Channel, path: Path, header: Header) -> Event | None:
        limit = self._job.maxdatalen
        if header.pk_len > limit:
            raise _fault(channel, f"sent {header.pk_len} octets in a packet, {limit} were agreed", "3.5")
        if header.msglen > _LONGEST:
            raise _fault(channel, f"announced a message of {header.msglen} octets", "3.5")
        if header.msglen > limit:
            if header.pk_type == _DATA:
                self._on_continuation(channel, path, header)
                return None
        elif header.pk_len != header.msglen:
            raise _fault(
                channel,
                f"sent {header.pk_len} octets of a short message of {header.msglen}; both must be equal",
                "3.7.1",
            )
        return self._on_first(channel, path, header)

    def _on_first(self, channel: Channel, path: Path, header: Header) -> Event | None:
        if not 0 <= header.tag <= self._job.tag_ub or header.lsrank < 0:
            raise _fault(
                channel,
                f"sent a message with tag {header.tag} (0 to {self._job.tag_ub} were agreed) "
                f"from local rank {header.lsrank}",
                "3.4",
            )
        incoming = Incoming(
            source=path.rank,
            cid=header.cid,
            tag=header.tag,
            lsrank=header.lsrank,
            nbytes=header.msglen,
            count=header.count,
            srqid=header.srqid,
            first=header.pk_len,
            synchronous=header.pk_type == _DATASYNC,
        )
        channel.reader.expect(incoming, header.pk_len)
        if self.destroys:
            return None
        # 3.7.4: an older one with this id is no longer attached to a request, so no CANCEL can mean it.
        path.newest[header.srqid] = incoming
        return Arrived(incoming)

    def _on_continuation(self, channel: Channel, path: Path, header: Header) -> None:
        incoming = self._receiving.get(header.drqid)
        if incoming is None or incoming.source != path.rank:
            raise _fault(
                channel, f"went on with a long message under the unknown request id (drqid) {header.drqid}", "3.7.2"
            )
        if header.msglen != incoming.nbytes or header.srqid != incoming.srqid:
            raise _fault(
                channel,
                f"went on with request {header.srqid}, {header.msglen} octets, under the drqid of "
                f"request {incoming.srqid}, {incoming.nbytes} octets",
                "3.7.2",
            )
        end = incoming.filled + header.pk_len
        if end > incoming.nbytes:
            raise _fault(channel, f"sent {end} octets of a message of {incoming.nbytes}", "3.7.2")
        if end == incoming.nbytes:
            del self._receiving[header.drqid]
            channel.reader.streams -= 1
        channel.reader.expect(incoming, header.pk_len)

    # Acknowledgements

    def _on_protoack(self, channel: Channel, path: Path) -> None:
        try:
            path.window.acknowledged()
        except PeerError as error:
            raise _fault(channel, error.message, error.clause) from error
        channel.wake(path)

    def _on_syncack(self, channel: Channel, path: Path, header: Header) -> None:
        message = path.awaiting.pop(header.srqid, None)
        if message is None:
            raise _fault(channel, f"acknowledged the unknown request (srqid) {header.srqid}", "3.7.2")
        message.acknowledged = True
        message.drqid = header.drqid
        if message.taken < message.nbytes:
            if channel.only_acknowledges:
                raise LocalProtocolError(
                    f"the rest of {message} is asked for after our finalization packet: "
                    "the program ended with a send that it had not completed",
                    clause="3.8",
                )
            path.longs.append(message)
            self._queued(path)
        message.settle()

    def _on_cancel(self, channel: Channel, path: Path, header: Header) -> Event | None:
        # 3.7.4: always answered, and a message that was matched, or destroyed, can no longer be taken back.
        incoming = path.newest.pop(header.srqid, None)
        answer = PacketType.CANCELNO if incoming is None else PacketType.CANCELYES
        path.acks.append(path.bare(answer, header.srqid))
        self._queued(path)
        if incoming is None:
            return None
        incoming.cancelled = True
        incoming.stash = None
        return Cancelled(incoming)

    def _on_cancelyes(self, channel: Channel, path: Path, header: Header) -> None:
        message = path.cancelling.pop(header.srqid, None)
        if message is None or message.acknowledged:
            raise _fault(
                channel,
                f"took back request (srqid) {header.srqid}, which was not asked for or had been matched",
                "3.7.4",
            )
        path.awaiting.pop(header.srqid, None)
        message.asked = False
        message.cancelled = True
        message.settle()

    def _on_cancelno(self, channel: Channel, path: Path, header: Header) -> None:
        message = path.cancelling.pop(header.srqid, None)
        if message is None:
            raise _fault(
                channel, f"answered a cancellation of request (srqid) {header.srqid} that nobody asked", "3.7.4"
            )
        message.asked = False
        message.cancelled = False
        message.settle()


def _fault(channel: Channel, sentence: str, clause: str) -> PeerError:
    return PeerError(sentence, clause=clause, peer=channel.name, octets=channel.reader.raw)
