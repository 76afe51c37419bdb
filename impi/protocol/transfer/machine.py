"""Chapter 3 for one process: messages to packets and back, without I/O.

How it works: :meth:`Transfer.send` puts a message, an :class:`~.message.Outgoing`, into the lanes
of a :class:`~.path.Path`. Each remote process has a path. The :class:`~.channel.Channel` of the
remote host takes packets from its paths in turn, as credit (:mod:`.credit`) allows.
:meth:`Transfer.data_to_send` gives them as views. Octets come up through
:meth:`Transfer.get_buffer` and :meth:`Transfer.received` into the channel's
:class:`~.reader.Reader`; :class:`~.inbound.Inbound` makes events of them. :meth:`Transfer.accept`
names the place of a matched message's octets.

Short messages may bypass the queues: ``short_sender`` builds the packet for an immediate write, and
``short_reader`` delivers to posted receives. Both do so only where the queues would act at once.

Invariants: ``busy`` holds exactly the hosts with something queued; a message longer than maxdatalen
waits for its SYNCACK; no message follows FINI. :mod:`impi.rank.engine.channels.channels` drives the
machine with sockets, :mod:`impi.tools.simulate` in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Final

from impi.base.errors import HungUp, JobError, LocalProtocolError
from impi.protocol.job import Job
from impi.protocol.transfer.hosts import Hosts
from impi.protocol.transfer.inbound import Acknowledge, Deliver, Event, Inbound, Read
from impi.protocol.transfer.lanes import AFTER_FIRST
from impi.protocol.transfer.message import Incoming, Outgoing
from impi.protocol.transfer.scatter import Scatter
from impi.protocol.wire.packets import HEADER_SIZE, SRQID_OFFSET, Header, PacketType

MakePacket = Callable[[int, memoryview, int], memoryview | list[memoryview] | None]
"""``make(tag, octets, count) -> packet``: see :meth:`Transfer.short_sender`."""

_DATA: Final = int(PacketType.DATA)
_DATASYNC: Final = int(PacketType.DATASYNC)
_FINALIZING: Final = "3.8"
_pack_srqid: Final = Struct(">Q").pack_into


class Transfer:
    """The transfer machine of the process ``rank`` of ``job``.

    Each host of the other clients has a channel, which has the global index of that host. With
    ``agent`` the only channel leads to our own host, a separate process that routes packets. There
    our FINI says that this process is done, and the agent's FINI that all others are.

    Three kinds of calls drive the machine, and each may change :meth:`wants_write`. For messages
    there are :meth:`send`, :meth:`accept`, :meth:`cancel` and :meth:`finish`. For octets read there
    is :meth:`get_buffer`, then :meth:`received` or :meth:`eof`. For octets written there is
    :meth:`data_to_send`, then :meth:`sent`.

    Every method raises LocalProtocolError for calls that the protocol or this contract forbids.
    After any other error the job cannot go on.
    """

    def __init__(self, job: Job, rank: int, *, agent: bool = False) -> None:
        if not 0 <= rank < len(job.procs):
            raise LocalProtocolError(
                f"there is no rank {rank} in a job of {len(job.procs)} processes"
            )

        self._job = job
        self._me = job.procs[rank]
        self._finishing = False
        # One counter for all destinations, whose ids never come again: 3.7.4 lets a CANCEL reach
        # only the newest message of an srqid. So it can reach every message.
        self._srqid = 0
        self._longest_short = job.maxdatalen  # 3.7: longer messages wait for a SYNCACK
        self.hosts = Hosts(job, self._me, agent=agent)
        self._inbound = Inbound(job, self.hosts)

    # Messages

    def send(
        self,
        dest: int,
        *,
        cid: int,
        tag: int,
        lsrank: int,
        views: Sequence[memoryview],
        synchronous: bool = False,
        count: int = 0,
    ) -> Outgoing:
        """Queue a message for rank ``dest`` in MPI_COMM_WORLD, a proc of another client (IMPI 3.7).

        Args:
            dest: rank in MPI_COMM_WORLD.
            cid: context id of the communicator.
            tag: 0 to the job's tag_ub.
            lsrank: our rank in the communicator.
            views: the user data, C-contiguous views (format ``B``); untouched until ``done``.
            synchronous: done only when it has been matched.
            count: elements in it, for the receiver's checks.
        """

        path = self.hosts.path(dest)
        # 3.8: FINI is the last packet but for acknowledgements. A peer would rightly report a
        # message behind it as our fault.
        if self._finishing:
            raise LocalProtocolError(
                f"a message for rank {dest} after the finalization packet",
                clause=_FINALIZING,
            )

        if not 0 <= tag <= self._job.tag_ub:
            raise LocalProtocolError(
                f"tag {tag} is not within 0 to {self._job.tag_ub}", clause="3.4"
            )

        nbytes = 0
        # The wire counts octets, but a slice of a memoryview counts items of its format. A slice of
        # doubles would have eight times the octets that its header says.
        for view in views:
            if view.nbytes != len(view):
                raise LocalProtocolError(
                    f"user data is given as octets, not as items of format {view.format!r}"
                )

            nbytes += view.nbytes

        # 3.7.2: in any mode, a message that does not fit in one packet waits for a SYNCACK.
        waits = synchronous or nbytes > self._longest_short
        # 3.7.2: of a long message only this packet is sent unasked, and as DATASYNC.
        kind, first = _DATASYNC if waits else _DATA, min(nbytes, self._job.maxdatalen)
        self._srqid += 1
        header = Header(
            kind,
            first,
            *path.addresses,
            self._srqid,
            0,
            nbytes,
            lsrank,
            tag,
            cid,
            0,
            count,
        )
        message = Outgoing(dest, header, views)
        # Only queued: :meth:`Path.next` takes the credit when the packet really goes. Until then
        # the message can be withdrawn without a word to the peer.
        path.lanes.firsts.append(message)
        self.hosts.queued(path)

        return message

    def short_sender(self, dest: int, cid: int, lsrank: int) -> MakePacket:
        """Return ``make(tag, octets, count) -> packet | None`` for messages of one packet, past the
        queues.

        The packet equals that of :meth:`send` and is valid until the next call. Few octets (format
        ``B``) are copied behind the header. With more octets the packet is a list of header and
        octets, and nothing is copied. ``make`` does nothing and returns None if the message needs
        several packets, credit is missing or something is queued. :meth:`requeue` takes the octets
        that TCP has not taken.
        """

        path = self.hosts.path(dest)
        channel, window, short, lanes = (
            self.hosts.channels[path.host],
            path.window,
            path.frame,
            path.lanes,
        )
        tag_ub, limit, most = self._job.tag_ub, self._longest_short, short.most
        frame = short.room()
        # A program mostly repeats tag and length, so the header is kept between calls: then only
        # the request id is packed anew. Senders of other communicators share the path's frame.
        size = last_tag = elements = -1
        packet = place = frame

        def make(
            tag: int, octets: memoryview, count: int
        ) -> memoryview | list[memoryview] | None:
            nonlocal size, last_tag, elements, packet, place

            nbytes = len(octets)
            # Whatever waits on the channel was sent before, and MPI keeps messages of two procs in
            # order. Without credit the message has to wait in a lane (3.6).
            if channel.work or nbytes > limit or not window.open or self._finishing:
                return None

            if (
                short.filled is not make
                or nbytes != size
                or tag != last_tag
                or count != elements
            ):
                if type(tag) is not int or not 0 <= tag <= tag_ub:
                    # The caller then calls send(), which raises: it alone has the error's sentence.
                    return None

                short.fill(nbytes, lsrank, tag, cid, count)
                short.filled = make
                size, last_tag, elements = nbytes, tag, count
                # Room for few octets only: longer ones stay where they are, and go as a second
                # piece of the same system call.
                copied = nbytes if nbytes <= most else 0
                packet = frame[: HEADER_SIZE + copied]
                place = packet[HEADER_SIZE:]

            # 3.5: unique among our active requests
            self._srqid = srqid = self._srqid + 1
            _pack_srqid(frame, SRQID_OFFSET, srqid)
            # Path.next() would count and turn likewise, with nothing else in its lanes.
            window.sent += 1

            lanes.turn = AFTER_FIRST
            if nbytes > most:
                return [packet, octets]

            place[:] = octets

            return packet

        return make

    def requeue(self, dest: int, packet: memoryview | bytes, nbytes: int) -> None:
        """Queue the rest of a short packet or PROTOACK; TCP took its first ``nbytes`` octets."""
        # The packet was counted when it was made, so it does not go through a lane, which would
        # count it again. It is copied: the frame belongs to the next short message, the octets to
        # the program.
        host = self.hosts.paths[dest].host
        self.hosts.channels[host].requeue(bytes(packet[nbytes:]), begun=nbytes > 0)
        self.hosts.busy.add(host)

    def accept(
        self, incoming: Incoming, view: memoryview | Sequence[memoryview] | None
    ) -> None:
        """Give the matched message ``incoming`` its place; send SYNCACK if the sender waits for it.

        Args:
            incoming: from an :class:`Arrived` event, not accepted or cancelled before.
            view: writable octets (format ``B``), at least ``incoming.nbytes``. They belong to the
                machine until ``done``. A sequence of such views has exactly ``incoming.nbytes``
                octets in all, in message order. None drops the octets on arrival, so that a message
                too long for its receive costs no memory.
        """

        if incoming.accepted or incoming.cancelled:
            raise LocalProtocolError(
                f"a message was accepted after it had been accepted or cancelled: {incoming}"
            )

        place: memoryview | Scatter | None
        if view is None or isinstance(view, memoryview):
            # Checked here, where the caller makes the mistake. Later it would show in the middle of
            # a read, which may have octets of other messages, too.
            if view is not None and (
                view.nbytes < incoming.nbytes or view.readonly or view.format != "B"
            ):
                raise LocalProtocolError(
                    f"{incoming} cannot go into {view.nbytes} octets (format {view.format}, readonly {view.readonly})"
                )

            place = view
        else:
            place = Scatter(view)
            if place.nbytes != incoming.nbytes or not place.usable:
                raise LocalProtocolError(
                    f"{incoming} cannot go into {len(view)} views of {place.nbytes} octets"
                )

        # The place first, the SYNCACK after it: packets that the SYNCACK invites need the place.
        path = self.hosts.paths[incoming.source]

        incoming.take_place(place)
        # 3.7.4: a matched message can no longer be taken back. A newer message may have the same
        # srqid by now: a CANCEL still reaches that one.
        if path.newest.get(incoming.header.srqid) is incoming:
            del path.newest[incoming.header.srqid]

        # 3.7.2: a SYNCACK leaves at the match, not on arrival: before the match the rest of a long
        # message has no place. It counts for credit (3.6), so it goes through a lane.
        if incoming.synchronous:
            path.lanes.acks.append(
                path.bare(
                    PacketType.SYNCACK,
                    incoming.header.srqid,
                    self._inbound.handle(incoming),
                )
            )
            self.hosts.queued(path)

        # A short message may have come whole before it was matched: then it is done at once.
        incoming.settle()

    def cancel(self, message: Outgoing) -> None:
        """Try to take ``message`` back; once it is ``done``, ``cancelled`` tells (IMPI 3.7.4).

        Do not call this for a message whose request MPI has completed.
        """

        # There are four cases: decided before, not yet sent, known to be matched, and unknown. In
        # the last one the peer has to be asked, which costs packets.
        path = self.hosts.path(message.dest)
        if message.asked or message.cancelled is not None:
            return

        if not message.started:  # still in its lane: the peer has not heard of it
            channel = self.hosts.channels[path.host]
            channel.withdraw(path, message)
            self.hosts.refresh(channel)
            message.cancelled = True
        elif message.acknowledged:
            message.cancelled = False  # it was matched: decided here
        else:
            if self._finishing:
                raise LocalProtocolError(
                    f"a cancellation of {message} after finish()", clause=_FINALIZING
                )

            # In the lane of first packets, behind the message: a CANCEL that overtook it would
            # find nothing to take back.
            message.asked = True
            path.cancelling[message.header.srqid] = message
            path.lanes.firsts.append(path.bare(PacketType.CANCEL, message.header.srqid))
            self.hosts.queued(path)

        message.settle()

    def finish(self) -> None:
        """Send FINI on every channel, behind the queues; messages that arrive later are destroyed.

        Call this once every message is ``done``; unmatched ones may be given up (IMPI 3.8).
        """
        self._finishing = True

        # 3.8: the program has left MPI, so no receive will ever match what comes from now on. It is
        # still read and counted, or a peer without credit could not reach its own FINI.
        self._inbound.destroys = True
        for host in self.hosts.channels:
            self.hosts.dismiss(host)

    @property
    def finished(self) -> bool:
        """Whether FINI has gone and come on every channel: the connections may be closed."""
        return all(channel.closed for channel in self.hosts.channels.values())

    @property
    def idle(self) -> bool:
        """Whether nothing is queued anywhere: every octet has been given to TCP."""
        return not self.hosts.busy

    # Writing

    def wants_write(self, host: int) -> bool:
        return self.hosts.channel(host).writable

    def data_to_send(self, host: int) -> list[memoryview]:
        """Return the next octets for ``host``, at most 64 views. Then call :meth:`sent`, maybe with
        0."""
        return self.hosts.channel(host).views()

    def sent(self, host: int, nbytes: int) -> None:
        """TCP took the first ``nbytes`` octets of :meth:`data_to_send`."""

        channel = self.hosts.channel(host)

        channel.sent(nbytes)
        # 3.8: both have said FINI, so acknowledgements that are left are of no use
        if channel.closed:
            channel.close()

        self.hosts.refresh(channel)

    # Reading

    def get_buffer(self, host: int) -> memoryview:
        """Return the memory for the next octets from ``host`` (``recv_into``), at least one octet.

        Valid until the next call for this host. Then call :meth:`received` or :meth:`eof`, or
        retry.
        """
        # A :class:`Scatter` has several places: this is the first, the next call gives the next.
        room = self.hosts.channel(host).reader.buffer()
        assert isinstance(room, memoryview), "one place was asked for"

        return room

    def buffers_of(self, host: int) -> Callable[[], memoryview | list[memoryview]]:
        """Return a function to call in place of :meth:`get_buffer` for one host.

        It gives a list, for ``recvmsg_into``, where the octets go to several places.
        """
        return partial(self.hosts.channel(host).reader.buffer, True)

    def received(self, host: int, nbytes: int) -> list[Event]:
        """Process ``nbytes`` (at least one) octets that were read into :meth:`get_buffer`.

        Returns:
            the events in order. Messages accepted before the next :meth:`get_buffer` are copied at
            most once.

        Raises:
            PeerError: the host broke the protocol.
        """
        self.note(host, nbytes)
        return self.parse(host)

    def note(self, host: int, nbytes: int, deliver: Deliver | None = None) -> bool:
        """Note octets that were read, and return False, so that the caller calls :meth:`parse`.

        It has the signature of ``Read``: a channel without a short reader takes it in that place.
        """
        self.hosts.channel(host).reader.received(nbytes)
        return False

    def short_reader(
        self, host: int, deliver: Deliver, acknowledge: Acknowledge
    ) -> Read:
        """Return ``read(nbytes, deliver)``, in place of :meth:`received` where ``deliver`` takes.

        It makes no object and no event of a message that ``deliver`` takes. A call without
        ``deliver`` uses the one given here. PROTOACKs that are due go by ``acknowledge`` if nothing
        else is queued; :meth:`requeue` takes the rest of one. If it returns False, call
        :meth:`parse`.
        """
        return self._inbound.short_reader(
            self.hosts.channel(host), deliver, acknowledge
        )

    def parse(self, host: int) -> list[Event]:
        """Return the events of the octets that a function of :meth:`short_reader` has left."""

        channel = self.hosts.channel(host)
        # Packets that came may have given credit, or call for answers. So the set of busy hosts may
        # have changed.
        events = self._inbound.parse(channel)
        self.hosts.refresh(channel)

        return events

    def inside(self, host: int) -> bool:
        """Whether what was read of ``host`` ends inside a packet."""
        return self.hosts.channel(host).reader.inside

    def eof(self, host: int) -> None:
        """Raise an error if the connection with ``host`` has ended too early.

        The host has closed it, or the network has failed.

        Raises:
            JobError: the host's FINI has not come: the host was lost (IMPI 3.8).
            PeerError: the host's FINI has come, but ours has not gone.
        """
        channel = self.hosts.channel(host)
        # 3.8: a channel that closes without FINI ends abnormally. A lost peer is a JobError, as its
        # own client can say more; a peer that does not wait for our FINI is at fault.
        if not channel.fini_received:
            part = channel.reader.unfinished
            where = ", in the middle of a packet" if part else ""
            raise JobError(
                f"{channel.name} was lost: its connection ended without a finalization packet{where}; "
                f"see what client {channel.host.client} reports",
                clause=_FINALIZING,
                octets=part,
            )

        # The peer has said FINI and left. Our own FINI, and what is queued before it, can no longer
        # reach it.
        if not channel.fini_sent:
            raise HungUp(
                "closed the connection without waiting for our finalization packet",
                clause=_FINALIZING,
                peer=channel.name,
            )
