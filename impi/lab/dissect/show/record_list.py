"""All observations as one list of records in order of time, for :mod:`impi.cli.decode`.

How it works: the decoders give conversations, channels and packets; a teller for each connection
makes a record of each of these, and notes where its octets begin. Octets that no decoder could read
lie between two such places, and become records of kind ERROR or GAP. So every octet of every stream
is in exactly one record: :attr:`Record.size` adds up to all octets. A reader sees by that, that
nothing was left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from impi.lab.dissect.decode.host_channel import PROOFS, Channel, Packet, proved
from impi.lab.dissect.decode.ledger import Ledger, in_order
from impi.lab.dissect.decode.participants import Layout, show_address
from impi.lab.dissect.decode.startup import LABELS, Conversation, Note, misordered
from impi.lab.dissect.jobs.job_finder import ObservedJob
from impi.lab.dissect.streams.problem import Problem
from impi.lab.dissect.streams.tcp import Connection, Stream

Value = int | str | list[int | str]

FIELDS: Final = (
    *("time", "job", "connection", "from", "to", "offset", "size", "type"),
    *(
        "opener",
        "accepter",
        "len",
        "auth_mask",
        "method",
        "rank",
        "nclients",
        "label",
        "client_mask",
        "values",
    ),
    *(
        "src",
        "src_rank",
        "src_client",
        "dest",
        "dest_rank",
        "dest_client",
        "srqid",
        "drqid",
        "msglen",
        "lsrank",
    ),
    *(
        "tag",
        "cid",
        "seqnum",
        "count",
        "dtype",
        "reserved",
        "text",
        "clause",
        "octets",
        "data",
    ),
)
"""Every name that a record may have a value for, in the order of printing."""

_WRONG: Final = ("ERROR", "GAP")
_MANDATORY: Final = frozenset(LABELS.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One event: a command's or packet's name, ``OPEN``, ``CLOSE``, ``RESET``, ``METHOD``, ``KEY``,
    ``HOSTRANK``; ``ERROR`` for a breach of the protocol; ``GAP`` for input that is missing."""

    # Seconds, or a step of a possible order without a clock; a packet has its header's time
    time: float
    job: int
    connection: int
    source: str
    dest: str
    kind: str
    offset: int = 0  # where it begins in the stream of ``source``
    size: int = 0  # octets of that stream that belong to this record alone
    fields: Mapping[str, Value] = field(default_factory=dict)
    data: bytes = b""  # user data


def wrong(record: Record) -> bool:
    """Whether it tells of a breach of the protocol, or of something that the input lacks."""
    return record.kind in _WRONG


def records(jobs: Iterable[ObservedJob]) -> list[Record]:
    """Return all records of these jobs, in order of time."""

    found: list[Record] = []

    connection = 0
    for number, job in enumerate(jobs):
        for conversation in job.conversations:
            found.extend(_Startup(number, connection, conversation).records())
            connection += 1

        for channel in job.channels:
            found.extend(_Wire(number, connection, channel, job).records())
            connection += 1

    # a stable sort: messages of one side stay in their order
    return sorted(found, key=lambda r: r.time)


class _Teller:
    """Writes the records of one connection."""

    def __init__(
        self, job: int, number: int, connection: Connection, names: tuple[str, str]
    ) -> None:
        self.job, self.number = job, number
        self.connection, self.names = connection, names
        # Where records begin in each stream: octets between them are those
        # that no decoder could read.
        self.starts: dict[bool, list[int]] = {True: [], False: []}

    def stream(self, forth: bool) -> Stream:
        return self.connection.forth if forth else self.connection.back

    def tell(
        self,
        forth: bool,
        kind: str,
        time: float,
        *,
        offset: int = 0,
        size: int = 0,
        fields: Mapping[str, Value] | None = None,
        data: bytes = b"",
    ) -> Record:
        """Make a record of a message from one side; its octets, if any, begin at ``offset``."""
        # A record without octets of its own, such as OPEN or a gap, bounds nothing.
        if size:
            self.starts[forth].append(offset)

        source, dest = self.names if forth else self.names[::-1]

        return Record(
            time=time,
            job=self.job,
            connection=self.number,
            source=source,
            dest=dest,
            kind=kind,
            offset=offset,
            size=size,
            fields=fields or {},
            data=data,
        )

    def opening(self) -> Iterator[Record]:
        ends: dict[str, Value] = {}
        if self.connection.opener[0]:
            shown = [f"{show_address(address)}:{port}" for address, port in self.ends()]
            ends = {"opener": shown[0], "accepter": shown[1]}

        yield self.tell(True, "OPEN", self.connection.opened, fields=ends)

    def ends(self) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
        return self.connection.opener, self.connection.accepter

    def closing(self) -> Iterator[Record]:
        for forth in (True, False):
            stream = self.stream(forth)
            if stream.fin_time is not None:
                yield self.tell(
                    forth, "CLOSE", stream.fin_time, offset=len(stream.data)
                )

            if stream.reset_time is not None:
                yield self.tell(
                    forth, "RESET", stream.reset_time, offset=len(stream.data)
                )

            for problem in stream.problems:
                end = max(self.end(forth), self.connection.opened)
                yield self.tell(
                    forth, "GAP", end, offset=len(stream.data), fields={"text": problem}
                )

    def end(self, forth: bool) -> float:
        """Return when the last known octet of one side was seen."""
        stream = self.stream(forth)
        known = (
            stream.fin_time,
            stream.reset_time,
            stream.time_at(len(stream.data)) if stream.marks else None,
        )

        return max(
            (time for time in known if time is not None), default=self.connection.opened
        )

    def ended(self, forth: bool) -> bool:
        """Whether nothing can follow: the side has closed, or a saved stream has ended."""
        stream = self.stream(forth)
        return (
            stream.fin_time is not None
            or stream.reset_time is not None
            or not self.connection.opener[0]
        )

    def undecoded(self, problems: Iterable[Problem]) -> Iterator[Record]:
        """Yield the octets that no decoder could read. Call it after all other records."""
        whole = not self.connection.problems
        for problem in problems:
            # Unread octets reach to the next record of that side, or to the end.
            later = [at for at in self.starts[problem.forth] if at >= problem.offset]

            size = max(
                min(later, default=len(self.stream(problem.forth).data))
                - problem.offset,
                0,
            )
            # A hole makes the octets before it look cut: only whole streams accuse their sender.
            if whole or size:
                yield self.problem(problem, kind="ERROR" if whole else "GAP", size=size)

    def problem(
        self, problem: Problem, *, kind: str = "ERROR", size: int = 0
    ) -> Record:
        fields: dict[str, Value] = {"text": problem.text, "clause": problem.clause}
        if problem.octets:
            fields["octets"] = problem.octets.hex()

        return self.tell(
            problem.forth,
            kind,
            problem.time,
            offset=problem.offset,
            size=size,
            fields=fields,
        )


class _Startup(_Teller):
    def __init__(self, job: int, number: int, conversation: Conversation) -> None:
        client = (
            "client ?"
            if conversation.client is None
            else f"client {conversation.client}"
        )
        super().__init__(job, number, conversation.connection, (client, "server"))
        self.conversation = conversation

    def records(self) -> Iterator[Record]:
        yield from self.opening()

        wrong = {id(note): text for note, text in misordered(self.conversation)}
        for note in self.conversation.notes:
            told = _note_fields(note)

            yield self.tell(
                note.by_client,
                note.kind,
                note.time,
                offset=note.offset,
                size=note.size,
                fields=told,
            )
            if id(note) in wrong:
                yield self.problem(self.wrong(wrong[id(note)], "2.3.5", note))

        yield from self.closing()
        yield from self.undecoded(self.conversation.problems)
        yield from self.missing()

    def wrong(self, text: str, clause: str, note: Note) -> Problem:
        return Problem.at(
            text,
            clause,
            forth=note.by_client,
            offset=note.offset,
            time=note.time,
            data=self.stream(note.by_client).data,
        )

    def missing(self) -> Iterator[Record]:
        """Yield records of messages that are missing before the end (IMPI 2.3.5 to 2.3.7)."""

        # Messages that are missing can be told only of a stream that was
        # read to its end.
        if self.connection.problems or self.conversation.problems:
            return

        heard = {
            n.label_name
            for n in self.conversation.notes
            if n.kind == "COLL" and not n.by_client
        }

        lost = sorted(_MANDATORY - heard)
        for note in self.conversation.notes:
            if note.kind == "DONE" and not note.by_client and lost:
                yield self.problem(
                    self.wrong(
                        f"DONE before the labels {', '.join(lost)}", "2.3.5", note
                    )
                )

        for forth, command, clause in (
            (False, "DONE", "2.3.6"),
            (True, "FINI", "2.3.7"),
        ):
            if self.ended(forth) and not self.conversation.said(
                command, by_client=forth
            ):
                end, name = len(self.stream(forth).data), self.names[0 if forth else 1]
                text = f"{name} ended without {command}"
                yield self.problem(
                    Problem.at(
                        text, clause, forth=forth, offset=end, time=self.end(forth)
                    )
                )


class _Wire(_Teller):
    def __init__(
        self, job: int, number: int, channel: Channel, observed: ObservedJob
    ) -> None:
        names = [
            f"host {h}" if h >= 0 else "host ?"
            for h in (channel.opener, channel.accepter)
        ]
        super().__init__(job, number, channel.connection, (names[0], names[1]))
        self.channel, self.layout = channel, observed.layout

    def records(self) -> Iterator[Record]:
        yield from self.opening()
        if len(self.connection.forth.data) >= 4:
            time = self.connection.forth.time_at(3)
            yield self.tell(
                True, "HOSTRANK", time, size=4, fields={"rank": self.channel.opener}
            )

        if proved(self.connection):
            for forth, end in ((True, 4 + PROOFS), (False, PROOFS)):
                if len(self.stream(forth).data) >= end:
                    yield self.tell(
                        forth, "PROOF", self.stream(forth).time_at(end - 1), size=PROOFS
                    )

        ledger = Ledger(self.layout)
        for packet in in_order(self.channel.packets, self.layout):
            yield self.packet(packet)
            # Nothing is accused on a connection with holes.
            if not self.connection.problems:
                for text, clause in ledger.faults(packet):
                    yield self.problem(self.wrong(text, clause, packet))

                ledger.enter(packet)

        yield from self.closing()
        yield from self.undecoded(self.channel.problems)
        yield from self.missing()

    def packet(self, packet: Packet) -> Record:
        return self.tell(
            packet.forth,
            packet.kind,
            packet.begun,
            offset=packet.offset,
            size=128 + len(packet.payload),
            fields=_packet_fields(packet, self.layout),
            data=packet.payload,
        )

    def wrong(self, text: str, clause: str, packet: Packet) -> Problem:
        return Problem.at(
            text,
            clause,
            forth=packet.forth,
            offset=packet.offset,
            time=packet.begun,
            data=self.stream(packet.forth).data,
        )

    def missing(self) -> Iterator[Record]:
        """Yield records of missing FINIs: without one a channel ends abnormally (IMPI 3.8)."""
        if self.connection.problems or self.channel.problems:
            return

        for forth in (True, False):
            said = any(
                p.kind == "FINI" for p in self.channel.packets if p.forth == forth
            )
            if self.ended(forth) and not said:
                end, name = len(self.stream(forth).data), self.names[0 if forth else 1]
                text = f"{name} ended the channel without FINI"
                yield self.problem(
                    Problem.at(
                        text, "3.8", forth=forth, offset=end, time=self.end(forth)
                    )
                )


def _note_fields(note: Note) -> dict[str, Value]:
    fields: dict[str, Value] = {} if note.kind == "KEY" else {"len": note.length}

    shown: list[int | str] = [
        v.hex() if isinstance(v, bytes) else v for v in note.values
    ]
    match note.kind:
        case "AUTH":
            fields["auth_mask"] = shown
        case "METHOD":
            fields["method"] = shown[0]
        case "IMPI" if shown:
            fields["rank" if note.by_client else "nclients"] = shown[0]
        case "COLL":
            fields["label"] = note.label_name
            if not note.by_client:
                fields["client_mask"] = note.mask

            if note.label_name in ("H_IPV6", "P_IPV6"):
                shown = [
                    show_address(v) if isinstance(v, bytes) and len(v) == 16 else str(v)
                    for v in note.values
                ]

            fields["values"] = shown
        case "KEY":
            pass
        case _ if shown:
            fields["values"] = shown

    return fields


def _packet_fields(packet: Packet, layout: Layout | None) -> dict[str, Value]:
    fields: dict[str, Value] = {"len": packet.length}
    for end, (address, pid) in (("src", packet.src), ("dest", packet.dest)):
        fields[end] = f"{show_address(address)}/{pid}"

        rank = layout.rank_of(address, pid) if layout is not None else None
        if layout is not None and rank is not None:
            fields[f"{end}_rank"], fields[f"{end}_client"] = (
                rank,
                layout.procs[rank].client,
            )

    fields |= {
        "srqid": packet.srqid,
        "drqid": packet.drqid,
        "msglen": packet.msglen,
        "lsrank": packet.lsrank,
    }
    fields |= {
        "tag": packet.tag,
        "cid": packet.cid,
        "seqnum": packet.seqnum,
        "count": packet.count,
    }

    return fields | {"dtype": packet.dtype, "reserved": packet.reserved}
