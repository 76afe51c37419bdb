"""Chapter 3 for one process: messages to packets and back, without I/O.

A message goes down from :meth:`Transfer.send` as an :class:`~.message.Outgoing` into the lanes of a
:class:`~.path.Path`, one for each remote process. The :class:`~.channel.Channel` of the remote host
takes packets from its paths in turn, as credit (:mod:`.credit`) allows, and offers them as views to
:meth:`Transfer.data_to_send`. Octets come up through :meth:`Transfer.get_buffer` and
:meth:`Transfer.received` into the channel's :class:`~.reader.Reader`; :class:`~.inbound.Inbound`
makes events of them. :meth:`Transfer.accept` names the place of a matched message's octets.

Short messages may bypass the queues: ``short_sender`` builds the packet for an immediate write, and
``short_reader`` delivers to posted receives. Both do nothing unless the queues would act at once.

Invariants: ``busy`` holds exactly the hosts with something queued; a message longer than maxdatalen
waits for its SYNCACK; no message follows FINI. :mod:`impi.engine.channels` drives the machine with
sockets, :mod:`impi.simulate` in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from struct import Struct
from typing import Final

from impi.errors import HungUp, JobError, LocalProtocolError
from impi.job import Host, Job
from impi.transfer.channel import Channel, host_name
from impi.transfer.inbound import Acknowledge, Deliver, Event, Inbound
from impi.transfer.message import Incoming, Outgoing
from impi.transfer.path import AFTER_FIRST, Path
from impi.transfer.scatter import Scatter
from impi.wire.packets import HEADER_SIZE, SRQID_OFFSET, PacketType

ShortSender = Callable[[int, bytes | bytearray | memoryview, int], memoryview | None]

_FINALIZING: Final = "3.8"
_pack_srqid: Final = Struct(">Q").pack_into


class Transfer:
    """The transfer machine of the process ``rank`` of ``job``.

    A channel has the global index of its remote host; every host of the other clients has one. With
    ``agent`` the only channel leads to our own host, a separate process that routes packets. FINI
    on it says that this process, or everybody else, is done.

    The caller's messages drive the machine: :meth:`send`, :meth:`accept`, :meth:`cancel`,
    :meth:`finish`. So do octets read (:meth:`get_buffer`, then :meth:`received` or :meth:`eof`) and
    octets written (:meth:`data_to_send`, then :meth:`sent`). Each may change :meth:`wants_write`.

    Every method raises LocalProtocolError for what the protocol or this contract forbids *us*.
    After any other error the job cannot go on.
    """

    def __init__(self, job: Job, rank: int, *, agent: bool = False) -> None:
        if not 0 <= rank < len(job.procs):
            raise LocalProtocolError(f"there is no rank {rank} in a job of {len(job.procs)} processes")
        self._job = job
        self._me = job.procs[rank]
        self._finishing = False
        self._srqid = 0
        self._paths: dict[int, Path] = {}
        self._channels: dict[int, Channel] = {}
        self.busy: set[int] = set()
        """Hosts for which something is queued, even if held back for credit; read only."""
        remote = [host for host in job.hosts if host.client != self._me.client]
        if job.is_lazy:
            remote = []  # :meth:`open` makes them
        if agent:
            own = job.hosts[self._me.host]
            paths = [self._new_path(peer, own.index) for host in remote for peer in host.procs]
            self._channels[own.index] = Channel(own, paths, f"our agent, {host_name(own)}")
        else:
            for host in remote:
                self._new_channel(host)
        self._inbound = Inbound(job, self._me, self._channels, self._paths, self._queued)

    def _new_path(self, rank: int, host: int) -> Path:
        job = self._job
        path = Path(
            self._me, job.procs[rank], host, maxdatalen=job.maxdatalen, ackmark=job.ackmark, hiwater=job.hiwater
        )
        self._paths[rank] = path
        return path

    def _new_channel(self, host: Host) -> Channel:
        paths = [self._new_path(peer, host.index) for peer in host.procs]
        self._channels[host.index] = channel = Channel(host, paths, host_name(host))
        return channel

    def admit(self, job: Job, hosts: Sequence[Host], tag_ub: int) -> None:
        """Add channels with hosts of another job.

        Args:
            job: our job, with these hosts and their procs behind its own.
            hosts: the new ones; every one of their procs has a path from now on.
            tag_ub: the largest tag that their procs may send.
        """
        self._job = job
        for host in hosts:
            self._inbound.admit(job, self._new_channel(host).paths, tag_ub)

    def open(self, host: int) -> None:
        """Add the channel with a host of a lazy job, to which this process is connected now."""
        self._inbound.admit(self._job, self._new_channel(self._job.hosts[host]).paths, self._job.tag_ub)

    def dismiss(self, host: int) -> None:
        """Send FINI to a host, behind its queue."""
        channel = self._channel(host)
        if channel.closed:
            return
        channel.finishing = channel.ending = True
        self.busy.add(host)

    def parted(self, host: int) -> bool:
        """Whether FINI has gone and come on the channel of a host: :meth:`forget` may follow."""
        return self._channel(host).closed

    def forget(self, host: int) -> None:
        """Remove the channel of a host that has :meth:`parted`, and the paths of its procs."""
        channel = self._channels.pop(host)
        self.busy.discard(host)
        for path in channel.paths:
            del self._paths[path.rank]
        self._inbound.forget(channel.paths)

    def abandon(self, host: int) -> None:
        """Behave as if FINI had gone and come: the host is lost, and the job goes on without.

        Messages that were to go there are never done; those that have come whole can be accepted.
        """
        channel = self._channel(host)
        channel.fini_sent = channel.fini_received = channel.ending = True
        channel.close()
        self.busy.discard(host)

    @property
    def hosts(self) -> tuple[int, ...]:
        """The hosts that there are channels with, ascending."""
        return tuple(self._channels)

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
        path = self._path(dest)
        if self._finishing:
            raise LocalProtocolError(f"a message for rank {dest} after the finalization packet", clause=_FINALIZING)
        if not 0 <= tag <= self._job.tag_ub:
            raise LocalProtocolError(f"tag {tag} is not within 0 to {self._job.tag_ub}", clause="3.4")
        self._srqid += 1
        message = Outgoing(
            dest=dest,
            cid=cid,
            tag=tag,
            lsrank=lsrank,
            views=views,
            synchronous=synchronous,
            count=count,
            srqid=self._srqid,
        )
        # 3.7.2: in any mode, a message that does not fit in one packet waits for a SYNCACK.
        message.synchronous = synchronous or message.nbytes > self._job.maxdatalen
        path.firsts.append(message)
        self._queued(path)
        return message

    def short_sender(self, dest: int, cid: int, lsrank: int) -> ShortSender:
        """Return ``make(tag, octets, count) -> packet | None`` for short messages, past the queues.

        The packet equals that of :meth:`send` and is valid until the next call. Its octets (format
        ``B``) are copied, so the send is complete. None: nothing was done, because the message is
        too long, credit is missing or something is queued. :meth:`requeue` takes octets that TCP
        does not.
        """
        path = self._path(dest)
        channel, window, tag_ub, most = self._channels[path.host], path.window, self._job.tag_ub, path.short_max
        frame = path.room()
        size = last_tag = elements = -1
        packet = place = frame

        def make(tag: int, octets: bytes | bytearray | memoryview, count: int) -> memoryview | None:
            nonlocal size, last_tag, elements, packet, place
            nbytes = len(octets)
            if channel.work or nbytes > most or not window.open or self._finishing:
                return None
            if path.filled is not make or nbytes != size or tag != last_tag or count != elements:
                if type(tag) is not int or not 0 <= tag <= tag_ub:
                    return None
                path.fill(nbytes, lsrank, tag, cid, count)
                path.filled = make
                size, last_tag, elements = nbytes, tag, count
                packet = frame[: HEADER_SIZE + nbytes]
                place = packet[HEADER_SIZE:]
            self._srqid = srqid = self._srqid + 1
            _pack_srqid(frame, SRQID_OFFSET, srqid)
            place[:] = octets
            # As Path.next() would, if nothing else were in its lanes.
            window.sent += 1
            path.turn = AFTER_FIRST
            return packet

        return make

    def requeue(self, dest: int, packet: memoryview | bytes, nbytes: int) -> None:
        """Queue the rest of a short packet or PROTOACK of which TCP took only ``nbytes`` octets."""
        host = self._paths[dest].host
        self._channels[host].requeue(bytes(packet[nbytes:]), begun=nbytes > 0)
        self.busy.add(host)

    def accept(self, incoming: Incoming, view: memoryview | Sequence[memoryview] | None) -> None:
        """Give the matched message ``incoming`` its place; send SYNCACK if the sender waits for it.

        Args:
            incoming: from an :class:`Arrived` event, not accepted or cancelled before.
            view: writable octets (format ``B``), at least ``incoming.nbytes``; the machine's until
                ``done``. Or a sequence of such views, exactly that many octets together, in message
                order. None drops the octets on arrival: too long a message costs no memory.
        """
        if incoming.accepted or incoming.cancelled:
            raise LocalProtocolError(f"a message was accepted after it had been accepted or cancelled: {incoming}")
        place: memoryview | Scatter | None
        if view is None or isinstance(view, memoryview):
            if view is not None and (view.nbytes < incoming.nbytes or view.readonly or view.format != "B"):
                raise LocalProtocolError(
                    f"{incoming} cannot go into {view.nbytes} octets (format {view.format}, readonly {view.readonly})"
                )
            place = view
        else:
            place = Scatter(view)
            if place.nbytes != incoming.nbytes or not place.usable:
                raise LocalProtocolError(f"{incoming} cannot go into {len(view)} views of {place.nbytes} octets")
        path = self._paths[incoming.source]
        incoming.take_place(place)
        if path.newest.get(incoming.srqid) is incoming:
            del path.newest[incoming.srqid]
        if incoming.synchronous:
            path.acks.append(path.bare(PacketType.SYNCACK, incoming.srqid, self._inbound.handle(incoming)))
            self._queued(path)
        incoming.settle()

    def cancel(self, message: Outgoing) -> None:
        """Ask to take back ``message``; once ``done``, ``cancelled`` is the answer (IMPI 3.7.4).

        The caller does not ask for a message whose request MPI has completed.
        """
        path = self._path(message.dest)
        if message.asked or message.cancelled is not None:
            return
        if not message.started:
            channel = self._channels[path.host]
            channel.withdraw(path, message)
            self._refresh(channel)
            message.cancelled = True
        elif message.acknowledged:
            message.cancelled = False  # it was matched: decided here
        else:
            if self._finishing:
                raise LocalProtocolError(f"a cancellation of {message} after finish()", clause=_FINALIZING)
            message.asked = True
            path.cancelling[message.srqid] = message
            path.firsts.append(path.bare(PacketType.CANCEL, message.srqid))
            self._queued(path)
        message.settle()

    def finish(self) -> None:
        """Send FINI on every channel, behind the queues; messages that arrive later are destroyed.

        The caller has seen every message ``done``, or lets go of unmatched ones (IMPI 3.8).
        """
        self._finishing = True
        self._inbound.destroys = True
        for host in self._channels:
            self.dismiss(host)

    @property
    def finished(self) -> bool:
        """Whether FINI has gone and come on every channel: the connections may be closed."""
        return all(channel.closed for channel in self._channels.values())

    @property
    def idle(self) -> bool:
        """Whether nothing is queued anywhere: every octet has been given to TCP."""
        return not self.busy

    # Writing

    def wants_write(self, host: int) -> bool:
        """Whether :meth:`data_to_send` has anything for ``host`` now."""
        return self._channel(host).writable

    def data_to_send(self, host: int) -> list[memoryview]:
        """Return the next octets for ``host``, at most 64 views. Then call :meth:`sent`, maybe with
        0."""
        return self._channel(host).views()

    def sent(self, host: int, nbytes: int) -> None:
        """TCP took the first ``nbytes`` octets of :meth:`data_to_send`."""
        channel = self._channel(host)
        channel.sent(nbytes)
        if channel.closed:
            channel.close()
        self._refresh(channel)

    # Reading

    def get_buffer(self, host: int) -> memoryview:
        """Return the memory for the next octets from ``host`` (``recv_into``), at least one octet.

        Valid until the next call for this host. Then call :meth:`received` or :meth:`eof`, or
        retry.
        """
        room = self._channel(host).reader.buffer()
        assert isinstance(room, memoryview)  # one place was asked for
        return room

    def buffers_of(self, host: int) -> Callable[[], memoryview | list[memoryview]]:
        """Return what to call in place of :meth:`get_buffer` for one host.

        It gives a list, for ``recvmsg_into``, where the octets go to several places.
        """
        return partial(self._channel(host).reader.buffer, True)

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

    def note(self, host: int, nbytes: int) -> bool:
        """Note what was read, for :meth:`parse`. Return False, like a reader that consumes none."""
        self._channel(host).reader.received(nbytes)
        return False

    def short_reader(self, host: int, deliver: Deliver, acknowledge: Acknowledge) -> Callable[[int], bool]:
        """Return ``read(nbytes) -> bool``: :meth:`received` for messages that ``deliver`` takes.

        No object and no event is made of them. PROTOACKs that are due go by ``acknowledge`` if
        nothing else is queued; :meth:`requeue` takes the rest of one. False: call :meth:`parse`.
        """
        return self._inbound.short_reader(self._channel(host), deliver, acknowledge)

    def parse(self, host: int) -> list[Event]:
        """Return the events of the octets that a function of :meth:`short_reader` has left."""
        channel = self._channel(host)
        events = self._inbound.parse(channel)
        self._refresh(channel)
        return events

    def inside(self, host: int) -> bool:
        """Whether what was read of ``host`` ends inside a packet."""
        return self._channel(host).reader.inside

    def eof(self, host: int) -> None:
        """The connection with ``host`` has ended, by its hand or by an error of the network.

        Raises:
            JobError: before its FINI: it was lost (IMPI 3.8).
            PeerError: after its FINI, but before it can have ours.
        """
        channel = self._channel(host)
        if not channel.fini_received:
            part = channel.reader.unfinished
            where = ", in the middle of a packet" if part else ""
            raise JobError(
                f"{channel.name} was lost: its connection ended without a finalization packet{where}; "
                f"see what client {channel.host.client} reports",
                clause=_FINALIZING,
                octets=part,
            )
        if not channel.fini_sent:
            raise HungUp(
                "closed the connection without waiting for our finalization packet",
                clause=_FINALIZING,
                peer=channel.name,
            )

    # Within

    def _channel(self, host: int) -> Channel:
        try:
            return self._channels[host]
        except KeyError:
            raise LocalProtocolError(f"there is no channel with host {host}: not a host of another client") from None

    def _path(self, rank: int) -> Path:
        try:
            return self._paths[rank]
        except KeyError:
            raise LocalProtocolError(
                f"rank {rank} is not a process of another client, so no packets go there"
            ) from None

    def _queued(self, path: Path) -> None:
        channel = self._channels[path.host]
        if channel.closed:  # an acknowledgement that nobody awaits any more
            path.acks.clear()
            return
        channel.work += 1
        channel.wake(path)
        self.busy.add(path.host)

    def _refresh(self, channel: Channel) -> None:
        if channel.idle:
            self.busy.discard(channel.host.index)
        else:
            self.busy.add(channel.host.index)
