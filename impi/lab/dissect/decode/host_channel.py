"""Decodes the TCP channel between two hosts: the host rank, then packets (IMPI 2.3.8, 3.5).

Input is a :class:`~impi.lab.dissect.streams.tcp.Connection`, whose two octet streams
:mod:`impi.lab.dissect.streams.tcp` reassembled from segments. :func:`decode_channel` reads the
opener's rank, cuts each stream into packets, and merges both by the time at which a packet's last
octet was captured. :func:`messages` then joins the packets of one message by source, destination
and srqid, across all channels of a job. :mod:`.ledger` judges credit and order on the same packets;
:mod:`impi.lab.dissect.jobs.capture` and :mod:`impi.lab.dissect.jobs.job_finder` call this module.

Invariants: packets of one direction keep their order; a stream is read up to its first octets that
are not a packet, which become one :class:`~impi.lab.dissect.streams.problem.Problem`; the peers'
faults raise no exception.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from impi.lab.dissect.decode.participants import Layout, show_address
from impi.lab.dissect.streams.problem import Problem
from impi.lab.dissect.streams.tcp import Connection, Stream

PACKET_TYPES: Final = (
    "DATA",
    "DATASYNC",
    "PROTOACK",
    "SYNCACK",
    "CANCEL",
    "CANCELYES",
    "CANCELNO",
    "FINI",
)
USED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "PROTOACK": (),
    "SYNCACK": ("srqid", "drqid"),
    "CANCEL": ("srqid",),
    "CANCELYES": ("srqid",),
    "CANCELNO": ("srqid",),
    "FINI": (),
}
"""Fields of packets without user data; others mean nothing there (IMPI 3.5, table 3.1)."""
# It is 128 octets in network order, without padding (IMPI 3.5).
_HEADER: Final = struct.Struct(">II16sq16sqQQQiiQQqQQ")
_CARRIERS: Final = ("DATA", "DATASYNC")
_SHOWN: Final = 16
_MARK: Final = b"IMPI"  # the first octets of a nonce; no type of packet has them
PROOFS: Final = 64
"""Octets of a nonce and a proof; impi's decision page "authentication" has the exchange."""

_Key = tuple[int, int, int]  # source, destination and source request id of a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Packet:
    """One packet; the fields are those of IMPI 3.5, in order."""

    time: float
    from_host: int
    to_host: int
    kind: str
    length: int
    src: tuple[bytes, int]
    dest: tuple[bytes, int]
    srqid: int
    drqid: int
    msglen: int
    lsrank: int
    tag: int
    cid: int
    seqnum: int
    count: int
    dtype: int
    reserved: int
    payload: bytes
    offset: int = 0  # where its header begins in its stream
    forth: bool = True  # whether it comes from the host that connected
    # When its header had been captured; ``time`` is when its last octet had
    begun: float = 0.0

    def describe(self, layout: Layout | None) -> str:
        """Return one line, with ranks of MPI_COMM_WORLD where the layout knows them."""

        if self.kind == "FINI":
            return "FINI"  # IMPI 3.8: only the type counts

        ends = f"{_name(self.src, layout)} -> {_name(self.dest, layout)}"

        text = f"{self.kind} {ends} srqid={self.srqid}"
        if self.kind in _CARRIERS:
            data = self.payload[:_SHOWN].hex() + (
                "..." if len(self.payload) > _SHOWN else ""
            )
            text += (
                f" drqid={self.drqid} cid={self.cid} tag={self.tag} lsrank={self.lsrank}"
                f" len={self.length}/{self.msglen} [{data}]"
            )
        elif self.kind == "SYNCACK":
            text += f" drqid={self.drqid}"

        return text


def _name(proc: tuple[bytes, int], layout: Layout | None) -> str:
    rank = layout.rank_of(*proc) if layout is not None else None
    return f"rank {rank}" if rank is not None else f"{show_address(proc[0])}/{proc[1]}"


@dataclass(slots=True)
class Channel:
    """All packets between two hosts, in both directions."""

    connection: Connection
    # Global rank of the connecting host, as it said itself; -1: it said nothing
    opener: int
    accepter: int
    # In order of time; each direction in its own order
    packets: list[Packet] = field(default_factory=list)
    # Breaches of the protocol, or results of capture holes if the connection has problems.
    problems: list[Problem] = field(default_factory=list)
    # Packets at the ends of the streams with a whole header and a part of their user data.
    cut: list[Packet] = field(default_factory=list)

    def finished(self, host: int) -> bool:
        return any(p.kind == "FINI" and p.from_host == host for p in self.packets)


def decode_channel(
    connection: Connection, accepter: int, *, answers: bool = False
) -> Channel:
    """Decode a captured host channel; ``accepter`` is the host that listens there.

    ``answers``: that host begins with its rank, too, as in impi's lazy jobs.
    """

    channel = Channel(connection, -1, accepter)

    data = connection.forth.data
    # IMPI 2.3.8 does not say the order of these four octets; network
    # order is our reading.
    if len(data) >= 4:
        channel.opener = int(struct.unpack_from(">i", data)[0])
    else:
        text = "the connecting host did not send its rank"
        problem = Problem.at(
            text,
            "2.3.8",
            forth=True,
            offset=0,
            time=connection.opened,
            data=data,
            cut=True,
        )
        channel.problems.append(problem)

    # With a shared secret both sides begin with a nonce and a proof, an
    # extension of ours.
    proofs = PROOFS if proved(connection) else 0
    if answers and connection.back.data[proofs : proofs + 4] != accepter.to_bytes(
        4, "big"
    ):
        text = f"host {accepter} did not answer with its rank"
        problem = Problem.at(
            text,
            "2.3.8",
            forth=False,
            offset=proofs,
            time=connection.opened,
            data=connection.back.data,
            cut=True,
        )
        channel.problems.append(problem)

    # The connecting side's host rank comes first (IMPI 2.3.8).
    forth = _packets(
        connection.forth, 4 + proofs, True, channel.opener, accepter, channel.problems
    )

    back = _packets(
        connection.back,
        proofs + 4 * answers,
        False,
        accepter,
        channel.opener,
        channel.problems,
    )
    # Both directions are merged by the time of their last octets; each
    # keeps its own order.
    for packet in sorted([*forth, *back], key=lambda p: p.time):
        whole = packet.kind not in _CARRIERS or len(packet.payload) == packet.length
        (channel.packets if whole else channel.cut).append(packet)

    return channel


def channels_of(
    connection: Connection, accepter: int, layout: Layout | None
) -> list[Channel]:
    """Return the channels that a connection to a host of a job is: one, or none.

    In a lazy job both of two hosts may connect at once. One of these connections gets no answer,
    and its opener has sent its own rank only.
    """

    if layout is None or not layout.is_lazy:
        return [decode_channel(connection, accepter)]

    before = PROOFS if proved(connection) else 0
    # No answer came, and the opener said its rank only: the other
    # connection of the two won.
    if (
        len(connection.back.data) < before + 4
        and len(connection.forth.data) <= before + 4
        and not connection.problems
    ):
        return []

    return [decode_channel(connection, accepter, answers=True)]


def proved(connection: Connection) -> bool:
    """Whether both sides begin with nonce and proof, as hosts of impi that share a secret do."""
    return connection.forth.data[4:8] == _MARK


def _packets(
    stream: Stream,
    begin: int,
    forth: bool,
    from_host: int,
    to_host: int,
    problems: list[Problem],
) -> Iterator[Packet]:
    """Yield the packets of one stream from ``begin`` on; the last one may be cut."""
    data, at = stream.data, begin

    def wrong(text: str, *, cut: bool = False) -> None:
        where, time = f"host {from_host} to host {to_host}: {text}", stream.time_at(at)
        problems.append(
            Problem.at(
                where, "3.5", forth=forth, offset=at, time=time, data=data, cut=cut
            )
        )

    while at < len(data):
        # A stream that ends within a header was cut off, which is not a breach
        # of its sender.
        if at + _HEADER.size > len(data):
            return wrong(
                f"{len(data) - at} octets at the end are not a whole header", cut=True
            )

        (kind,) = struct.unpack_from(">I", data, at)
        # Behind an unknown type no boundary can be trusted, so this stream ends here.
        if kind >= len(PACKET_TYPES):
            return wrong(f"packet type {kind} at octet {at} does not exist")

        size = carried(data, at)

        start, end = at + _HEADER.size, at + _HEADER.size + size
        # The header is whole and may itself be wrong, so the packet goes
        # on, marked as cut.
        if end > len(data):
            wrong(
                f"a packet at octet {at} ends after {len(data) - start} of {size} octets",
                cut=True,
            )

        yield unpack_packet(
            data,
            at,
            times=(stream.time_at(start - 1), stream.time_at(end - 1)),
            hosts=(from_host, to_host),
            forth=forth,
        )
        at = end


def carried(data: bytes, at: int = 0) -> int:
    """Return the octets of user data behind the header at ``at``; -1: the header is not whole.

    Only DATA and DATASYNC carry octets; pk_len means nothing elsewhere (IMPI 3.5, Table 3.1).
    """
    if len(data) - at < _HEADER.size:
        return -1

    kind, length = struct.unpack_from(">II", data, at)

    # LAM fills pk_len of PROTOACK, SYNCACK and FINI with 128, and no octets follow.
    return int(length) if kind in (0, 1) else 0


def unpack_packet(
    data: bytes,
    at: int,
    *,
    times: tuple[float, float],
    hosts: tuple[int, int],
    forth: bool = True,
) -> Packet:
    """Return the packet whose header begins at ``at``, with as much of its user data as there is.

    Args:
        data: octets of a channel; the header is whole, and its type exists.
        at: where the header begins.
        times: when header and last octet came.
        hosts: the host that sent it, and the other one.
        forth: whether it comes from the host that connected.
    """

    kind, length, src, spid, dest, dpid, *rest = _HEADER.unpack_from(data, at)
    srqid, drqid, msglen, lsrank, tag, cid, seqnum, count, dtype, reserved = rest
    start = at + _HEADER.size

    # No field is judged here: a value that breaks a clause must reach
    # the ledger as it was sent.
    return Packet(
        time=times[1],
        from_host=hosts[0],
        to_host=hosts[1],
        kind=PACKET_TYPES[kind],
        length=length,
        src=(src, spid),
        dest=(dest, dpid),
        srqid=srqid,
        drqid=drqid,
        msglen=msglen,
        lsrank=lsrank,
        tag=tag,
        cid=cid,
        seqnum=seqnum,
        count=count,
        dtype=dtype,
        reserved=reserved,
        payload=data[start : start + carried(data, at)],
        offset=at,
        forth=forth,
        begun=times[0],
    )


@dataclass(slots=True)
class Crossed:
    """One message on the wire (IMPI 3.7); ``src`` and ``dest`` are ranks of MPI_COMM_WORLD."""

    time: float
    src: int
    dest: int
    srqid: int
    cid: int
    tag: int
    lsrank: int
    nbytes: int
    sync: bool  # whether its first packet asked for an answer
    payload: bytes
    count: int = 0  # the number of elements, if the sender said it (pk_count)
    acknowledged: bool = False  # whether a SYNCACK for it was seen
    cancelled: bool = False  # whether a CANCELYES took it back (IMPI 3.7.4)
    asked_back: bool = False  # whether a CANCEL asked for that
    # The packets that carried the message, and its SYNCACK
    packets: list[Packet] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        return len(self.payload) == self.nbytes

    @property
    def at_once(self) -> bool:
        """Whether its first packet has all its octets, as in a short message (IMPI 3.7.1)."""
        return bool(self.packets) and self.packets[0].length == self.nbytes


def messages(channels: Iterable[Channel], layout: Layout) -> list[Crossed]:
    """Return the messages of all channels, in order of their first packets."""
    found = [
        message
        for channel in channels
        for message in _assemble(channel.packets, layout)
    ]
    return sorted(found, key=lambda m: m.time)


def _assemble(packets: Iterable[Packet], layout: Layout) -> list[Crossed]:
    # In order of their first packets. ``open_`` has the place of the
    # newest message of each request id, for ids are used again.
    found: list[Crossed] = []
    open_: dict[_Key, int] = {}

    answers: dict[_Key, deque[Packet]] = {}
    for packet in packets:
        # Procs are named by address and pid (IMPI 3.2); ranks are only in the layout.
        src, dest = layout.rank_of(*packet.src), layout.rank_of(*packet.dest)
        if src is None or dest is None:
            # FINI names no procs; a message that names none will be missed by whoever demands it
            continue

        key = (src, dest, packet.srqid)
        # An answer has the ends of its message the other way round, and
        # copies pk_srqid.
        if packet.kind == "SYNCACK":
            answers.setdefault((dest, src, packet.srqid), deque()).append(packet)
        # The newest message of a request id is the one that a CANCELYES
        # means (IMPI 3.7.4).
        elif packet.kind == "CANCELYES" and (dest, src, packet.srqid) in open_:
            found[open_[dest, src, packet.srqid]].cancelled = True
        elif packet.kind == "CANCEL" and key in open_:
            found[open_[key]].asked_back = True
        elif packet.kind in _CARRIERS:
            # IMPI 3.7.1: a message's first packet
            if packet.kind == "DATASYNC" or packet.length == packet.msglen:
                open_[key] = len(found)
                found.append(_first(packet, src, dest))

            # A continuation names its receiver's handle, and still carries
            # pk_srqid of its message.
            if key in open_:
                found[open_[key]].packets.append(packet)

    _answer(found, answers)

    return found


def _answer(found: list[Crossed], answers: dict[_Key, deque[Packet]]) -> None:
    """Put the messages' octets together, and give each DATASYNC its SYNCACK."""
    for message in found:
        message.payload = b"".join(packet.payload for packet in message.packets)

        key = (message.src, message.dest, message.srqid)
        # Counted, not ordered: a capture's clock does not order its two directions.
        if message.sync and not message.cancelled and answers.get(key):
            message.packets.append(answers[key].popleft())
            message.acknowledged = True


def _first(packet: Packet, src: int, dest: int) -> Crossed:
    return Crossed(
        time=packet.time,
        src=src,
        dest=dest,
        srqid=packet.srqid,
        cid=packet.cid,
        tag=packet.tag,
        lsrank=packet.lsrank,
        nbytes=packet.msglen,
        sync=packet.kind == "DATASYNC",
        payload=b"",
        count=packet.count,
    )
