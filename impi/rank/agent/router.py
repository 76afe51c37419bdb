"""The packet router of an agent, without I/O (IMPI 3.2, 3.6, 3.8).

How it works, driven by :mod:`impi.rank.agent.serve`, which owns the sockets. Inbound: octets are
read into ``link.cutter.buffer()``; :meth:`Router.received` cuts them into packets, checks each, and
queues it unchanged on the link to its destination. Outbound: ``link.views()`` gives octets for one
write, ``link.sent()`` takes the result. A link has a lane for each sending proc, served
round-robin; PROTOACKs overtake everything but a packet already begun.

FINI is not forwarded but counted: hosts get ours once all own procs have sent theirs; procs get
ours once all hosts have sent theirs, too.

Invariant: credit lives in the procs, so their credit bounds the packets that wait here. A sender
above it breaks the protocol (3.6). Reading never stops, so two full directions cannot deadlock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from impi.base.errors import HungUp, JobError, LocalProtocolError, PeerError
from impi.base.records import fresh, record
from impi.protocol.job import STRICT_VERSION, Job
from impi.protocol.transfer.channel import host_name
from impi.protocol.wire.packets import HEADER_SIZE, Header, PacketType, pack_header
from impi.rank.agent.cutter import Cutter

_FINI: Final = memoryview(pack_header(Header(int(PacketType.FINI))))
_WITH_DATA: Final = frozenset({PacketType.DATA, PacketType.DATASYNC})
_AFTER_FINI: Final = frozenset(
    {PacketType.PROTOACK, PacketType.SYNCACK, PacketType.CANCELYES, PacketType.CANCELNO}
)

_MOST_VIEWS: Final = 64  # Views of one write; every kernel takes more
# Octets of one write; packets behind it can still be overtaken by a PROTOACK.
_ENOUGH: Final = 64 * 1024


@record(frozen=False, eq=False)
class _Lane:
    """Packets of one proc that wait for one connection; or all its PROTOACKs."""

    most: int
    """Limit for senders that keep to the protocol."""
    held: int = 0
    """Packets that TCP has not completely taken."""
    packets: deque[memoryview] = fresh(default_factory=deque)


class _Output:
    """Packets on their way to TCP, in order, each with the lane that it has left."""

    def __init__(self) -> None:
        self.packets: deque[tuple[memoryview, _Lane | None]] = deque()
        self.octets = 0
        self.begun = False  # TCP has taken the start of the first packet

    def place(self, at: int, packet: memoryview, lane: _Lane | None) -> None:
        self.packets.insert(at, (packet, lane))
        self.octets += packet.nbytes

    def take(self, nbytes: int) -> list[_Lane | None]:
        """Drop the first ``nbytes`` octets; return the lane of each packet that ends there."""

        self.octets -= nbytes

        ended = []
        while nbytes:
            view, lane = self.packets[0]

            self.begun = nbytes < view.nbytes
            if self.begun:
                self.packets[0] = view[nbytes:], lane
                break

            nbytes -= view.nbytes
            self.packets.popleft()
            ended.append(lane)

        return ended

    def clear(self) -> None:
        self.packets.clear()
        self.octets = 0


class Link:
    """One connection of the agent: with one of its procs, or with a host of another client.

    Args:
        job: source of the limits.
        name: in error messages.
        client: the client of the other side.
        near: procs on the other side.
        far: procs whose packets go to the other side.
        check: see :class:`impi.rank.agent.cutter.Cutter`.
    """

    def __init__(
        self,
        job: Job,
        name: str,
        client: int,
        near: Iterable[int],
        far: Iterable[int],
        check: Callable[[Link, Header, bytes], int],
    ) -> None:
        self.name = name
        self.client = client
        self.near = frozenset(near)
        self.far = frozenset(far)
        self.cutter = Cutter(lambda header, octets: check(self, header, octets))
        self.fini_received = False
        self.fini_sent = False
        self.finishing = False
        """FINI is to be sent after the queued packets."""
        self.ended = False
        """The other side has closed the connection after both FINIs."""
        # 3.6: only unacknowledged packets wait here: hiwater of one pair of procs, and PROTOACKs.
        self._lanes = {rank: _Lane(job.hiwater * len(self.near)) for rank in self.far}
        self._urgent = _Lane(
            job.hiwater // job.ackmark * len(self.near) * len(self.far)
        )
        self._round: deque[_Lane] = deque()
        self._out = _Output()
        self._fini_placed = False

    @property
    def closed(self) -> bool:
        """Whether FINI was sent and received (IMPI 3.8)."""
        return self.fini_sent and self.fini_received

    @property
    def waiting(self) -> int:
        lanes = (*self._lanes.values(), self._urgent)
        return self._out.octets + sum(
            packet.nbytes for lane in lanes for packet in lane.packets
        )

    def put(self, source: int, packet: memoryview, *, urgent: bool) -> bool:
        """Queue a packet of proc ``source``; False: more wait than its credit allows (IMPI 3.6)."""

        if self.closed:
            return True  # an acknowledgement that is not awaited any more

        # The agent counts no credit of its own. It only sees that a sender exceeds the most that
        # its credit can allow, and names it: else the memory of the agent would grow without end.
        lane = self._urgent if urgent else self._lanes[source]
        if lane.held >= lane.most:
            return False

        if not urgent and not lane.packets:
            self._round.append(lane)

        lane.packets.append(packet)
        lane.held += 1

        return True

    def views(self) -> list[memoryview]:
        """Return the next octets for TCP, in <= 64 pieces; then call :meth:`sent`, even with 0."""

        out = self._out

        # A packet that TCP has begun comes first, or the stream could not be cut into packets
        # again.
        at = int(out.begun)
        while self._urgent.packets:  # 3.6: before all packets not begun
            out.place(at, self._urgent.packets.popleft(), self._urgent)
            at += 1

        while self._round and out.octets < _ENOUGH and len(out.packets) < _MOST_VIEWS:
            lane = self._round.popleft()

            out.place(len(out.packets), lane.packets.popleft(), lane)
            if lane.packets:  # round-robin: one packet a turn
                self._round.append(lane)

        # 3.8: FINI follows everything that is queued.
        if self.finishing and not self._round and not self._fini_placed:
            self._fini_placed = True
            out.place(len(out.packets), _FINI, None)

        return [view for view, _ in islice(out.packets, _MOST_VIEWS)]

    def sent(self, nbytes: int) -> None:
        """Drop the first ``nbytes`` octets of :meth:`views`, which TCP took."""

        due = self._out.octets
        if not 0 <= nbytes <= due:
            raise LocalProtocolError(
                f"{nbytes} octets cannot have been sent to {self.name}: {due} were due"
            )

        for lane in self._out.take(nbytes):
            if lane is not None:
                lane.held -= 1
            else:
                self.fini_sent = True

        self._settle()

    def finish(self) -> None:
        self.fini_received = True
        self._settle()

    def _settle(self) -> None:
        """Drop the queues after both FINIs: the other side may be gone."""
        if self.closed:
            self._urgent.packets.clear()
            self._round.clear()
            self._out.clear()


class Router:
    """The agent as host ``me`` of ``job``: a router; after any error the job cannot go on."""

    def __init__(self, job: Job, me: int) -> None:
        self._job = job
        own = job.hosts[me]
        remote = [host for host in job.hosts if host.client != own.client]
        others = [rank for host in remote for rank in host.procs]
        self.procs = {
            rank: Link(job, f"rank {rank}", own.client, [rank], others, self._check)
            for rank in own.procs
        }
        """Links by world rank."""
        self.hosts = {
            host.index: Link(
                job, host_name(host), host.client, host.procs, own.procs, self._check
            )
            for host in remote
        }
        """Links by global host index."""
        self._ranks = {(proc.ipv6, proc.pid): proc.rank for proc in job.procs}
        self._links = {
            **self.procs,
            **{rank: self.hosts[host.index] for host in remote for rank in host.procs},
        }
        self._client = own.client

    @property
    def finished(self) -> bool:
        return all(link.closed for link in self.hosts.values()) and all(
            link.ended for link in self.procs.values()
        )

    @property
    def foreign(self) -> bool:
        """Whether a client may be another implementation: ours agree on a later version."""
        return self._job.version == STRICT_VERSION

    def received(self, link: Link, nbytes: int) -> set[Link]:
        """Handle ``nbytes`` >= 1 octets that were read from ``link``.

        Returns:
            The links that may have octets to send.

        Raises:
            PeerError: the octets break the protocol.
        """
        touched = set()
        # A packet goes on as it came, whole: matching, counting and acknowledging are the procs'
        # business, so the agent has no state for a message (docs/decisions/host-agents.md).
        for header, packet in link.cutter.received(nbytes):
            if header.pk_type == PacketType.FINI:
                touched |= self._finish()
                continue

            source = self._ranks[header.src_ipv6, header.src_pid]

            out = self._links[self._ranks[header.dest_ipv6, header.dest_pid]]
            if not out.put(
                source, packet, urgent=header.pk_type == PacketType.PROTOACK
            ):
                sentence = (
                    f"rank {source} has sent more packets to {out.name} than it may have unacknowledged; "
                    f"it must wait at hiwater, {self._job.hiwater}"
                )
                raise PeerError(
                    sentence,
                    clause="3.6",
                    peer=link.name,
                    octets=packet[:HEADER_SIZE].tobytes(),
                )

            touched.add(out)

        return touched

    def eof(self, link: Link) -> None:
        """Handle the end of a connection, by the other side or by an error.

        Raises:
            JobError: before its FINI: the connection was lost (IMPI 3.8).
            PeerError: after its FINI, but before ours was sent.
        """
        if not link.fini_received:
            part = link.cutter.unfinished
            where = ", in the middle of a packet" if part else ""
            hint = (
                ""
                if link.client == self._client
                else f"; see what client {link.client} reports"
            )
            raise JobError(
                f"{link.name} was lost: its connection ended without a finalization packet{where}{hint}",
                clause="3.8",
                octets=part,
            )

        if not link.fini_sent:
            raise HungUp(
                "closed the connection without waiting for our finalization packet",
                clause="3.8",
                peer=link.name,
            )

        link.ended = True

    def _finish(self) -> set[Link]:
        """Send FINI on, once it speaks for all procs (IMPI 2.4, 3.8)."""

        # FINI belongs to a pair of hosts (3.8), and this host is all of its procs together: its
        # FINI goes out when the last proc has said its own.
        touched: set[Link] = set()
        if all(link.fini_received for link in self.procs.values()):
            touched.update(self.hosts.values())
            if all(link.fini_received for link in self.hosts.values()):
                touched.update(self.procs.values())

        for link in touched:
            link.finishing = True

        return touched

    def _check(self, link: Link, header: Header, octets: bytes) -> int:
        """Return the octets of user data of a packet from ``link``; PeerError: not allowed."""

        kind = header.pk_type
        if link.fini_received and kind not in _AFTER_FINI:
            raise _fault(
                link,
                f"sent a packet of type {kind} after its finalization packet",
                "3.8",
                octets,
            )

        if kind == PacketType.FINI:
            # Only the type has a meaning (table 3.1).
            link.finish()
            return 0

        if not 0 <= kind <= PacketType.FINI:
            raise _fault(link, f"sent a packet of unknown type {kind}", "3.5", octets)

        # Form only: type, length, and procs that belong to the two ends. An error here is named
        # with the octets, before a proc far away would report it without knowing the channel.
        source = self._ranks.get((header.src_ipv6, header.src_pid))
        if source not in link.near:
            who = (
                "a process that is not in this job"
                if source is None
                else f"rank {source}, which is not one of its"
            )
            raise _fault(
                link, f"sent a packet from {who} (pid {header.src_pid})", "3.2", octets
            )

        dest = self._ranks.get((header.dest_ipv6, header.dest_pid))
        if dest not in link.far:
            who = (
                "a process that is not in this job"
                if dest is None
                else f"rank {dest}, which is not served here"
            )
            raise _fault(
                link, f"sent a packet for {who} (pid {header.dest_pid})", "3.2", octets
            )

        if kind not in _WITH_DATA:
            return 0

        limit = self._job.maxdatalen
        if header.pk_len > limit:
            raise _fault(
                link,
                f"sent {header.pk_len} octets in a packet, {limit} were agreed",
                "3.5",
                octets,
            )

        return header.pk_len


def _fault(link: Link, sentence: str, clause: str, octets: bytes) -> PeerError:
    return PeerError(sentence, clause=clause, peer=link.name, octets=octets)
