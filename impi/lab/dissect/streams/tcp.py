"""Puts captured TCP segments back into the two octet streams of each connection.

Segments are sorted by their pair of endpoints; a new SYN starts another connection. Each direction
keeps its contiguous octets and a table of segments that wait for a gap to close, so retransmission
and reordering are undone. Marks record when octets were captured. Octets that were never captured
are *reported* (:attr:`Stream.problems`): a stream with a hole ends at the hole and proves no more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from impi.lab.dissect.streams.pcap import Endpoint, Segment

# Sequence numbers have 32 bits.
_WRAP = 1 << 32


@dataclass(slots=True)
class Stream:
    """One direction of a connection."""

    data: bytes = b""  # the octets from the first on, up to the end or the first hole
    # (offset, time): the octets from that offset on were captured at that time.
    marks: list[tuple[int, float]] = field(default_factory=list)
    # Octets that the capture lacks; empty if it is whole
    problems: list[str] = field(default_factory=list)
    fin_time: float | None = None  # when it was closed in good order
    reset_time: float | None = None  # when it was reset

    def time_at(self, offset: int) -> float:
        """Return when the octet at ``offset`` was captured; past the end, the last one's time."""
        if not self.marks:
            return 0.0

        return self.marks[max(bisect_right(self.marks, (offset, float("inf"))) - 1, 0)][
            1
        ]


@dataclass(slots=True)
class Connection:
    """One TCP connection; ``opener`` sent the first SYN."""

    opener: Endpoint
    accepter: Endpoint
    opened: float
    forth: Stream = field(default_factory=Stream)  # octets from the opener
    back: Stream = field(default_factory=Stream)  # octets from the accepter

    @property
    def problems(self) -> list[str]:
        return [f"opener: {p}" for p in self.forth.problems] + [
            f"accepter: {p}" for p in self.back.problems
        ]


class _Direction:
    """Collects the segments of one direction until the capture ends."""

    def __init__(self) -> None:
        self.stream = Stream()
        self.base: int | None = None  # sequence number of the first octet
        self.syn_seen = False
        self.syn_seq: int | None = None
        self.parts: list[bytes] = []
        self.have = 0  # octets put together so far
        self.waiting: dict[int, tuple[bytes, int, float]] = {}
        self.acked = 0  # octets that the other side says it has
        self.fin_at: int | None = None

    def add(self, segment: Segment) -> None:
        if segment.syn:
            self.syn_seen, self.syn_seq = True, segment.seq
            # The SYN takes one sequence number, so the first octet has the next one.
            self.base = (segment.seq + 1) % _WRAP

        # Without a SYN the first segment that was captured gives the base.
        # The stream then reports that its beginning is missing.
        if self.base is None:
            self.base = segment.seq

        start = self._offset(segment.seq) if not segment.syn else 0
        if segment.rst:
            self.stream.reset_time = self.stream.reset_time or segment.time
            return

        if segment.length:
            # The longer one of two captures of a segment counts: one may have
            # been cut to a length.
            known = self.waiting.get(start)
            if known is None or len(known[0]) < len(segment.payload):
                self.waiting[start] = (segment.payload, segment.length, segment.time)

            self._join()

        if segment.fin and self.fin_at is None:
            self.fin_at, self.stream.fin_time = start + segment.length, segment.time

    def acknowledged(self, ack: int) -> None:
        if self.base is not None:
            self.acked = max(self.acked, self._offset(ack))

    def _offset(self, seq: int) -> int:
        """Return the position of a sequence number in the stream, with the wrap at 2**32 undone."""
        base = self.base or 0
        # Distances are taken from the end of the known octets, so they stay
        # far below half the range.
        distance = (seq - base - self.have) % _WRAP

        return self.have + (distance - _WRAP if distance >= _WRAP // 2 else distance)

    def _join(self) -> None:
        """Append all segments that touch the end of the octets so far."""
        moved = True
        while moved and self.waiting:
            moved = False
            for start in sorted(self.waiting):
                payload, length, time = self.waiting[start]
                if start > self.have:
                    break

                if start + len(payload) > self.have:
                    # Segments may overlap, as retransmissions do: take only what is
                    # new.
                    self.stream.marks.append((self.have, time))
                    self.parts.append(payload[self.have - start :])
                    self.have = start + len(payload)
                    moved = True

                if start + length <= self.have:
                    del self.waiting[start]
                elif not moved:
                    break  # the capture cut this segment short

    def finish(self) -> Stream:
        stream = self.stream

        stream.data = b"".join(self.parts)
        if not self.syn_seen:
            stream.problems.append("the beginning is not in the capture")

        # A missing beginning is told in any case. Of other holes the first
        # that applies is told: octets that wait behind a gap, an end that
        # lies further on, or an acknowledgement of more than was captured.
        if self.waiting:
            at = min(self.waiting)
            stream.problems.append(
                f"octets {self.have} to {max(at, self.have + 1)} are not in the capture"
            )
        elif self.fin_at is not None and self.fin_at > self.have:
            stream.problems.append(
                f"octets {self.have} to {self.fin_at} are not in the capture"
            )
        # A FIN takes one sequence number, too, which is acknowledged like an octet.
        elif self.acked - (self.fin_at is not None) > self.have:
            stream.problems.append(
                f"octets from {self.have} on were acknowledged but are not in the capture"
            )

        return stream


class _Pending:
    """One connection while its segments come in."""

    def __init__(self, opener: Endpoint, accepter: Endpoint, time: float) -> None:
        self.connection = Connection(opener, accepter, time)
        self.forth, self.back = _Direction(), _Direction()

    def add(self, segment: Segment) -> None:
        mine, other = (
            (self.forth, self.back)
            if segment.src == self.connection.opener
            else (self.back, self.forth)
        )

        mine.add(segment)
        if segment.ack is not None:
            other.acknowledged(segment.ack)

    def superseded_by(self, segment: Segment) -> bool:
        """Whether this SYN opens a new connection between the same ports."""
        if not segment.syn or segment.ack is not None:
            return False

        # A SYN that was sent again has the same number. Another number, or
        # another opener, is a new connection between the same ports.
        return (
            self.forth.syn_seq != segment.seq or segment.src != self.connection.opener
        )

    def finish(self) -> Connection:
        self.connection.forth, self.connection.back = (
            self.forth.finish(),
            self.back.finish(),
        )
        return self.connection


def reassemble(segments: Iterable[Segment]) -> list[Connection]:
    """Return the connections among ``segments`` (in order of capture), in order of opening.

    If the opening is missing, the sender of the first segment counts as the opener, and the
    connection's problems say so.
    """

    live: dict[frozenset[Endpoint], _Pending] = {}

    every: list[_Pending] = []
    for segment in segments:
        key = frozenset((segment.src, segment.dst))

        pending = live.get(key)
        if pending is None or pending.superseded_by(segment):
            # Only the answer to the SYN was captured
            swapped = segment.syn and segment.ack is not None
            opener, accepter = (
                (segment.dst, segment.src) if swapped else (segment.src, segment.dst)
            )
            pending = live[key] = _Pending(opener, accepter, segment.time)
            every.append(pending)

        pending.add(segment)

    return [p.finish() for p in every]
