"""The receiving side: each packet is checked against its clause, counted, and carried out.

How it works: :class:`~.machine.Transfer` calls this module after each read. :meth:`Inbound.parse`
takes headers from the channel's :class:`~.reader.Reader`, checks them and dispatches on pk_type.
DATA and DATASYNC make an :class:`~.message.Incoming`, whose user data the reader puts where it
belongs; acknowledgements and cancellations change the :class:`~.path.Path` of the pair of
processes. The caller gets the events :class:`~.message.Arrived` and :class:`~.message.Cancelled`.
:meth:`Inbound.short_reader` is the fast path: it delivers short messages to posted receives without
objects or events, and leaves every other packet, faulty ones included, to ``parse``.

Invariants: a packet is counted once, when its user data is complete; PROTOACK and FINI never are
(3.6). ``newest`` holds unmatched messages, which CANCEL can reach; ``_receiving`` holds accepted
long messages by drqid until their last packet. A fault raises PeerError with the octets of the
header.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from impi.base.errors import LocalProtocolError, PeerError
from impi.protocol.job import Job
from impi.protocol.transfer.channel import Channel, host_name
from impi.protocol.transfer.hosts import Hosts
from impi.protocol.transfer.message import Arrived, Cancelled, Incoming
from impi.protocol.transfer.path import Path
from impi.protocol.transfer.reader import WHOLE
from impi.protocol.wire.packets import (
    HEADER_SIZE,
    SHORT_HEADER,
    Header,
    PacketType,
    unpack_header,
)

Event = Arrived | Cancelled
Deliver = Callable[[int, int, int, int, memoryview], bool]
"""Give a whole short message to the receive that waits for it.

Arguments: source (rank in MPI_COMM_WORLD), cid, tag, count, octets (valid during the call). False:
no receive waits, and nothing was done.
"""

Acknowledge = Callable[[int, bytes], None]
"""Sends a rank in MPI_COMM_WORLD a PROTOACK that is due, past the queues, which are empty."""


class Read(Protocol):
    """Handles octets that were read; see :meth:`Inbound.short_reader`."""

    def __call__(self, nbytes: int, deliver: Deliver = ..., /) -> bool:
        """Return whether nothing is left for :meth:`Inbound.parse`."""


_DATA: Final = int(PacketType.DATA)
_DATASYNC: Final = int(PacketType.DATASYNC)
_PROTOACK: Final = int(PacketType.PROTOACK)
_FINI: Final = int(PacketType.FINI)
# 3.8: after its FINI a host sends only acknowledgements. Each kind here answers packets of ours.
_AFTER_FINI: Final = frozenset(
    {PacketType.PROTOACK, PacketType.SYNCACK, PacketType.CANCELYES, PacketType.CANCELNO}
)

# Octets of the longest message that any machine could hold; pk_msglen can say more.
_LONGEST: Final = (1 << 63) - 1

_unpack_short: Final = SHORT_HEADER.unpack_from


class Inbound:
    """The receiving side of a :class:`impi.protocol.transfer.Transfer`, for all its channels.

    Args:
        job: the limits.
        hosts: told of each path to which a counted packet was added.
    """

    def __init__(self, job: Job, hosts: Hosts) -> None:
        self._job = job
        self._hosts = hosts
        self._me = hosts.me
        self._paths = hosts.paths
        self._ranks = hosts.ranks
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
        """Return the drqid for the packets that follow an accepted message's first; 0 if none
        follow."""

        # 3.7.2: a short synchronous message has no packet that could echo a drqid.
        if incoming.nbytes == incoming.header.pk_len:
            return 0

        self._drqid += 1
        self._receiving[self._drqid] = incoming
        self._hosts.channels[self._paths[incoming.source].host].reader.streams += 1

        return self._drqid

    def parse(self, channel: Channel) -> list[Event]:
        """Carry out the packets that are complete in the octets that were read."""
        reader = channel.reader

        events: list[Event] = []
        while True:
            body = reader.body
            if body is not None:
                # User data before headers: the next header begins only where this data ends.
                if not reader.fill(body):
                    return events

                self._packet_read(channel, body)

            header = reader.header()
            if header is None:
                return events

            # A header with user data sets `reader.body`, so the next turn goes on with the data.
            event = self._on_header(channel, header)
            if event is not None:
                events.append(event)

    def short_reader(
        self, channel: Channel, usual: Deliver, acknowledge: Acknowledge
    ) -> Read:
        """Return ``read(nbytes, deliver)``, which consumes PROTOACKs and short expected messages.

        ``nbytes`` octets were read on ``channel``. Each call may have another ``deliver``. False:
        other or faulty packets are left for :meth:`parse`, or something is to be written.
        """
        reader, host = channel.reader, channel.host.index
        # One lookup of 48 octets checks source and destination (3.2). Pairs of other hosts are
        # left out: a process that speaks through another one's channel is a fault, for parse().
        paths = {
            pair: path
            for pair, path in self._hosts.reverse.items()
            if path.host == host
        }
        ahead, limit, tag_ub, ackmark = (
            reader.ahead,
            self._job.maxdatalen,
            self._hosts.tag_ub,
            self._job.ackmark,
        )

        def read(nbytes: int, deliver: Deliver = usual) -> bool:
            between = reader.body is None
            reader.received(nbytes)
            # In the middle of a long message, and once FINI is in play (3.8), the rules depend on
            # earlier packets: parse() knows them.
            if channel.ending or not between:
                return False
            start, end = reader.start, reader.end
            while end - start >= HEADER_SIZE:
                kind, length, pair, _, msglen, lsrank, tag, cid, count = _unpack_short(
                    ahead, start
                )
                path = paths.get(pair)
                # A fault, which parse() finds again: it knows whom to blame and
                # which clause was broken.
                if path is None:
                    return False
                begin = start + HEADER_SIZE
                if kind == _PROTOACK:
                    # A surplus PROTOACK raises PeerError, whose report shows these octets.
                    reader.raw = ahead[start:begin].tobytes()
                    reader.start = start = begin
                    self._on_protoack(channel, path)
                    continue
                # The checks of :meth:`_on_data` and :meth:`_on_first` in one expression. What fails
                # one of them is a long message, another kind or a fault: all are for parse().
                if not (
                    kind == _DATA
                    and length == msglen <= limit
                    and lsrank >= 0
                    and 0 <= tag <= tag_ub
                ):
                    return False
                stop = begin + length
                if stop > end:
                    # The rest comes after it, and all is copied once. The copy of a longer one
                    # costs more than the calls of :meth:`parse`, which reads it to its place.
                    if length <= WHOLE:
                        break
                    return False
                if not deliver(path.rank, cid, tag, count, ahead[begin:stop]):
                    return False
                # Only now: until a receive has the message, parse() must find it here untouched.
                reader.start = stop
                counter = path.counter
                if counter.held or counter.unacknowledged + 1 >= ackmark:
                    self._count_short(channel, path, ahead[start:begin], acknowledge)
                else:
                    counter.unacknowledged += 1
                start = stop
            # A PROTOACK may have given credit to packets that wait, and acknowledgements may have
            # been queued: then the caller has to write before it goes on.
            return not channel.work

        return read

    def _count_short(
        self, channel: Channel, path: Path, header: memoryview, acknowledge: Acknowledge
    ) -> None:
        """Count a short message for which a PROTOACK is due."""
        # Past the queues a PROTOACK costs the peer no wait for our next write. It may not overtake
        # a packet that TCP has in part, so this is for channels without anything queued.
        reader, counter = channel.reader, path.counter
        if reader.start < reader.end or counter.held or channel.work:
            # A peer that sent more may be beyond hiwater: the queues know the octets that TCP has
            # taken.
            reader.raw = header.tobytes()
            self._count(channel, path)
        else:
            counter.unacknowledged = 0
            acknowledge(path.rank, path.bare(PacketType.PROTOACK))

    def _on_header(self, channel: Channel, header: Header) -> Event | None:
        kind = header.pk_type
        # 3.8: after FINI only acknowledgements, and we must still read them. A lost host has said
        # no FINI: abandon() only pretends it, and packets sent before are in order.
        if channel.fini_received and not channel.lost and kind not in _AFTER_FINI:
            raise self._fault(
                channel,
                f"sent a packet of type {kind} after its finalization packet",
                "3.8",
            )

        if kind == _FINI:
            # Only the type means anything (table 3.1): nothing else in it is looked at.
            channel.fini_received = channel.ending = True
            if channel.closed:
                channel.close()

            return None

        # Unknown commands are skipped (2.3.2), unknown packets cannot be: whether pk_len counts
        # depends on the type.
        if not 0 <= kind <= _FINI:
            raise self._fault(channel, f"sent a packet of unknown type {kind}", "3.5")

        path = self._sender(channel, header)
        # 3.5, table 3.1: pk_len means something in these two types alone. LAM/MPI sends 128 in
        # the others, so it is not looked at there.
        if kind in (_DATA, _DATASYNC):
            return self._on_data(channel, path, header)

        if kind == _PROTOACK:
            self._on_protoack(channel, path)
            return None

        # 3.6, 3.8: PROTOACK and FINI alone are exempt from flow control. So these four count like
        # data, and LAM/MPI counts them, too.
        event = self._handlers[kind](channel, path, header)
        self._count(channel, path)

        return event

    def _sender(self, channel: Channel, header: Header) -> Path:
        source = self._ranks.get((header.src_ipv6, header.src_pid))

        path = self._paths.get(source) if source is not None else None
        # With an agent in front of us, its own host is the host of every path.
        if path is None or path.host != channel.host.index:
            # Accepted, such a packet would change the credit of a pair that it does not belong to.
            who = (
                "a process that is not in this job"
                if source is None
                else f"rank {source}, which is not one of its"
            )
            raise self._fault(
                channel, f"sent a packet from {who} (pid {header.src_pid})", "3.2"
            )

        # An agent routes by these fields, a host without one serves this process alone. For anybody
        # else it can only have been routed wrongly.
        if header.dest_pid != self._me.pid or header.dest_ipv6 != self._me.ipv6:
            rank = self._ranks.get((header.dest_ipv6, header.dest_pid))
            who = (
                "a process that is not in this job"
                if rank is None
                else f"rank {rank}, which is not served here"
            )
            raise self._fault(
                channel, f"sent a packet for {who} (pid {header.dest_pid})", "3.2"
            )

        return path

    def _count(self, channel: Channel, path: Path) -> None:
        # 3.6: count on arrival, matched or not; the answer needs no credit and waits for nothing.
        try:
            due = path.counter.received()
        except PeerError as error:
            raise self._fault(channel, error.message, error.clause) from error

        if due:
            channel.acknowledge(path)

    def _packet_read(self, channel: Channel, incoming: Incoming) -> None:
        # 3.7.3: a message can be probed once its first packet has been read completely. The packet
        # counts from then on, too: a PROTOACK earlier would invite more than we have room for.
        incoming.available = True
        self._count(channel, self._paths[incoming.source])
        incoming.settle()

    # Data

    def _on_data(self, channel: Channel, path: Path, header: Header) -> Event | None:
        limit = self._job.maxdatalen
        # The limit is the minimum over all clients (2.3.5), so the sender has agreed to it, too.
        if header.pk_len > limit:
            raise self._fault(
                channel,
                f"sent {header.pk_len} octets in a packet, {limit} were agreed",
                "3.5",
            )

        if header.msglen > _LONGEST:
            raise self._fault(
                channel, f"announced a message of {header.msglen} octets", "3.5"
            )

        # 3.7.1, 3.7.2: DATA is a whole short message or goes on with a long one. Only the lengths
        # tell which: in a short message both are equal.
        if header.msglen > limit:
            if header.pk_type == _DATA:
                self._on_continuation(channel, path, header)
                return None
        elif header.pk_len != header.msglen:
            raise self._fault(
                channel,
                f"sent {header.pk_len} octets of a short message of {header.msglen}; both must be equal",
                "3.7.1",
            )

        return self._on_first(channel, path, header)

    def _on_first(self, channel: Channel, path: Path, header: Header) -> Event | None:
        if not 0 <= header.tag <= self._hosts.tag_ub or header.lsrank < 0:
            raise self._fault(
                channel,
                f"sent a message with tag {header.tag} (0 to {self._hosts.tag_ub} were agreed) "
                f"from local rank {header.lsrank}",
                "3.4",
            )

        # From here on the octets behind the header have an owner, even if the message is destroyed:
        # they must be read before the next header can be found.
        incoming = Incoming(path.rank, header)

        channel.reader.expect(incoming, header.pk_len)
        # 3.8: read and counted, so that the peer's credit does not dry up
        if self.destroys:
            return None

        # 3.7.4: an older one with this id is attached to no request, so no CANCEL can mean it.
        path.newest[header.srqid] = incoming

        return Arrived(incoming)

    def _on_continuation(self, channel: Channel, path: Path, header: Header) -> None:
        incoming = self._receiving.get(header.drqid)
        # The drqid is ours, but a peer could name another pair's: then its octets would land in
        # a buffer that belongs to somebody else's message.
        if incoming is None or incoming.source != path.rank:
            raise self._fault(
                channel,
                f"went on with a long message under the unknown request id (drqid) {header.drqid}",
                "3.7.2",
            )

        if header.msglen != incoming.nbytes or header.srqid != incoming.header.srqid:
            raise self._fault(
                channel,
                f"went on with request {header.srqid}, {header.msglen} octets, under the drqid of "
                f"request {incoming.header.srqid}, {incoming.nbytes} octets",
                "3.7.2",
            )

        end = incoming.filled + header.pk_len
        # The place was chosen by the length in the first packet, so there is none for more octets.
        if end > incoming.nbytes:
            raise self._fault(
                channel, f"sent {end} octets of a message of {incoming.nbytes}", "3.7.2"
            )

        # All packets of a message are in order on one channel (3.7.2), so the header of the last
        # one ends the request; its user data may still be on the way.
        if end == incoming.nbytes:
            del self._receiving[header.drqid]
            channel.reader.streams -= 1

        channel.reader.expect(incoming, header.pk_len)

    # Acknowledgements

    def _on_protoack(self, channel: Channel, path: Path) -> None:
        try:
            path.window.acknowledged()
        except PeerError as error:
            raise self._fault(channel, error.message, error.clause) from error

        # Packets that were held back for credit may go now.
        channel.wake(path)

    def _on_syncack(self, channel: Channel, path: Path, header: Header) -> None:
        message = path.awaiting.pop(header.srqid, None)
        if message is None:
            raise self._fault(
                channel,
                f"acknowledged the unknown request (srqid) {header.srqid}",
                "3.7.2",
            )

        message.acknowledged = True

        message.drqid = header.drqid
        # A long message: only its first packet has gone, and the SYNCACK asks for the rest (3.7.2).
        # A short synchronous one has nothing left to send.
        if message.taken < message.nbytes:
            # 3.8: no data follows our FINI. It was said although this send had not completed, so
            # the program is at fault, not the peer.
            if channel.only_acknowledges:
                raise LocalProtocolError(
                    f"the rest of {message} is asked for after our finalization packet: "
                    "the program ended with a send that it had not completed",
                    clause="3.8",
                )

            path.lanes.longs.append(message)
            self._hosts.queued(path)

        message.settle()

    def _on_cancel(self, channel: Channel, path: Path, header: Header) -> Event | None:
        # 3.7.4: always answered; a matched or destroyed message can no longer be taken back.
        incoming = path.newest.pop(header.srqid, None)
        answer = PacketType.CANCELNO if incoming is None else PacketType.CANCELYES
        # The answer takes part in credit (3.6), so it waits in a lane like data.
        path.lanes.acks.append(path.bare(answer, header.srqid))

        self._hosts.queued(path)
        if incoming is None:
            return None

        # CANCELYES promises that no receive takes the message, so its octets are not kept.
        incoming.cancelled = True
        incoming.stash = None

        return Cancelled(incoming)

    def _on_cancelyes(self, channel: Channel, path: Path, header: Header) -> None:
        message = path.cancelling.pop(header.srqid, None)
        # A SYNCACK before it says that the message was matched, so CANCELYES cannot be true.
        if message is None or message.acknowledged:
            raise self._fault(
                channel,
                f"took back request (srqid) {header.srqid}, which was not asked for or had been matched",
                "3.7.4",
            )

        # The peer has destroyed the message, so no SYNCACK comes for it any more.
        path.awaiting.pop(header.srqid, None)
        message.asked = False
        message.cancelled = True
        message.settle()

    def _on_cancelno(self, channel: Channel, path: Path, header: Header) -> None:
        message = path.cancelling.pop(header.srqid, None)
        if message is None:
            raise self._fault(
                channel,
                f"answered a cancellation of request (srqid) {header.srqid}, which has no open question",
                "3.7.4",
            )

        # The message was matched. That alone does not end a synchronous one: its SYNCACK may be
        # behind this packet, and settle() waits for it.
        message.asked = False
        message.cancelled = False
        message.settle()

    def _fault(self, channel: Channel, sentence: str, clause: str) -> PeerError:
        return PeerError(
            sentence,
            clause=clause,
            peer=self._culprit(channel),
            octets=channel.reader.raw,
        )

    def _culprit(self, channel: Channel) -> str:
        """Return the name of the last packet's sender; our agent only carries packets of others."""
        # This channel leads to our own agent, so a report by its name would send the
        # user to the wrong client.
        if channel.host.client == self._me.client:
            header = unpack_header(channel.reader.raw)

            rank = self._ranks.get((header.src_ipv6, header.src_pid))
            if rank is not None and rank in self._paths:
                return host_name(
                    self._hosts.job.hosts[self._hosts.job.procs[rank].host]
                )

        return channel.name
