"""The messages of a soak, by its seed alone, and the faults of messages that come.

Each ordered pair of ranks has a stream for each tag. Both ends derive the octets of each message of
a stream: its number, its stream, its length and a checksum, then octets that look random.
"""

from __future__ import annotations

import random
import struct
import zlib
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple

# Number in the stream, stream, octets of the message, CRC-32 of the rest
HEAD = struct.Struct("<IIII")
ROUND = 8  # messages of each ordered pair of ranks in a round
_SPREAD = 1 << 16
# A message too short for a head is searched this far before and behind its turn
_NEAR = 8
_SHOWN = 20
_MASK = (1 << 64) - 1
_KINDS = ("doubled", "reordered", "changed", "lost")


class Shape(NamedTuple):
    """The layout of a datatype's element in memory, in units of a basic type."""

    letter: str  # the unit, by its name in ``array``
    places: tuple[int, ...] = (0,)
    extent: int = 1

    @property
    def octets(self) -> int:
        return array(self.letter).itemsize * len(self.places)


# Columns and spaced are vectors, blocks are indexed, records are a struct of an int and a double.
SHAPES = {
    "octets": Shape("B"),
    "shorts": Shape("h"),
    "ints": Shape("i"),
    "longs": Shape("q"),
    "doubles": Shape("d"),
    "columns": Shape("i", (0,), 2),
    "blocks": Shape("h", (0, 1, 3), 4),
    "records": Shape("i", (0, 2, 3), 4),
    "spaced": Shape("q", (0,), 2),
}


class Tag(NamedTuple):
    """The properties that all messages of a tag share."""

    # ``posted``: the receive is there first; ``turn``: both ends come to it in one order of all;
    # ``any``: received by wildcards.
    lane: str
    comm: str
    shape: str


# By tag. Wildcards have a communicator of their own.
TAGS = (
    Tag("posted", "world", "doubles"),
    Tag("posted", "world", "records"),
    Tag("posted", "reversed", "octets"),
    Tag("posted", "reversed", "columns"),
    Tag("turn", "world", "ints"),
    Tag("turn", "turn", "blocks"),
    Tag("turn", "reversed", "longs"),
    Tag("any", "any", "octets"),
    Tag("any", "any", "shorts"),
    Tag("any", "any", "records"),
)


class Stream(NamedTuple):
    """All messages with one tag from one rank to another; ranks of MPI_COMM_WORLD."""

    source: int
    dest: int
    tag: int

    @property
    def key(self) -> int:
        return self.source << 20 | self.dest << 8 | self.tag

    @property
    def shape(self) -> Shape:
        return SHAPES[TAGS[self.tag].shape]

    def __str__(self) -> str:
        tag = TAGS[self.tag]
        return f"rank {self.source} to {self.dest}, tag {self.tag} ({tag.shape} in communicator {tag.comm})"


def mix(*words: int) -> int:
    """Return 64 bits that depend on all words, and are the same everywhere (splitmix64)."""
    value = 0
    for word in words:
        value = (value + word + 0x9E3779B97F4A7C15) & _MASK
        value = ((value ^ value >> 30) * 0xBF58476D1CE4E5B9) & _MASK
        value = ((value ^ value >> 27) * 0x94D049BB133111EB) & _MASK
        value ^= value >> 31

    return value


def length(drawn: int, longest: int) -> int:
    """Return octets from 1 to ``longest`` by random bits; few lengths are near the longest."""

    chance, drawn = drawn & 127, drawn >> 7
    if chance >= 126:
        return longest - drawn % (longest // 4)

    most = (
        64
        if chance < 40
        else 4096
        if chance < 80
        else 32768
        if chance < 116
        else 131072
    )

    return 1 + drawn % min(most, longest)


class Source:
    """Lengths and octets of all messages, by seed."""

    def __init__(self, seed: int, longest: int) -> None:
        """``longest``: octets of the longest message, beyond what one packet may have."""
        self._seed, self._longest = seed, longest
        self._pool = random.Random(seed).randbytes(longest + _SPREAD)  # noqa: S311  (octets that can be repeated)

    def plan(self, number: int, source: int, dest: int) -> list[Stream]:
        """Return the streams of a pair's messages in a round, in their order."""
        return [
            Stream(source, dest, mix(self._seed, number, source, dest, i) % len(TAGS))
            for i in range(ROUND)
        ]

    def size(self, stream: Stream, number: int) -> int:
        """Return the octets of a message: whole elements; few messages are long."""

        drawn = mix(self._seed, stream.key, number)

        if drawn & 127 < 8:
            return 0

        size = length(drawn, self._longest)
        unit = stream.shape.octets

        return max(unit, size - size % unit)

    def octets(self, stream: Stream, number: int) -> bytes:
        """Return the octets of a message; a short one has the beginning only."""

        size = self.size(stream, number)
        at = mix(self._seed, number, stream.key) % _SPREAD
        body = self._pool[at : at + max(0, size - HEAD.size)]

        return (HEAD.pack(number, stream.key, size, zlib.crc32(body)) + body)[:size]


class Faults:
    """The faults that one rank has found: how many of each kind, and the first in words."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(_KINDS, 0)
        # the first faults of each kind
        self.sentences: dict[str, list[str]] = {kind: [] for kind in _KINDS}

    def tell(self, kind: str, sentence: str) -> None:
        self.counts[kind] += 1
        if len(self.sentences[kind]) < _SHOWN:
            self.sentences[kind].append(sentence)


class Ledger(Faults):
    """All that one rank has received, held against what was due."""

    def __init__(self, source: Source) -> None:
        super().__init__()
        self.messages = self.octets = 0
        self._source = source
        self._next: dict[Stream, int] = {}
        self._missing: dict[Stream, set[int]] = {}

    def due(self, stream: Stream) -> int:
        return self._next.get(stream, 0)

    def take(self, stream: Stream, octets: bytes) -> None:
        """Take a message that has come on a stream."""

        self.messages += 1
        self.octets += len(octets)

        due = self._next.get(stream, 0)
        if octets == self._source.octets(stream, due):
            self._next[stream] = due + 1
            return

        number = self._number(stream, due, octets)

        missing = self._missing.setdefault(stream, set())
        if number is None:
            self.tell(
                "changed",
                f"message {due} of {stream}: {difference(self._source.octets(stream, due), octets)}",
            )
            self._next[stream] = due + 1
        elif number > due:
            missing.update(range(due, number))
            self._next[stream] = number + 1
        elif number in missing:
            missing.remove(number)
            self.tell(
                "reordered",
                f"message {number} of {stream} came after message {due - 1}",
            )
        else:
            self.tell("doubled", f"message {number} of {stream} came twice")

    def close(self, sent: Iterable[tuple[Stream, int]]) -> None:
        """End the streams: messages that have not come are lost, and so are those passed over.

        ``sent``: the number of messages of each stream that should have come.
        """
        counts = {**dict.fromkeys(self._missing, 0), **dict(sent)}
        for stream, count in counts.items():
            lost = sorted(
                {*self._missing.get(stream, ()), *range(self.due(stream), count)}
            )
            for number in lost:
                self.tell("lost", f"message {number} of {stream} has not come")

    def _number(self, stream: Stream, due: int, octets: bytes) -> int | None:
        """Return the number of a message that came out of turn; None: it is of no such stream."""
        if len(octets) >= HEAD.size:
            number = HEAD.unpack_from(octets)[0]
            # No sender is so far ahead: a number that was changed must not fill the memory.
            near = number <= due + _SPREAD
            return (
                number
                if near and octets == self._source.octets(stream, number)
                else None
            )

        near_by = sorted(
            range(max(0, due - _NEAR), due + _NEAR + 1),
            key=lambda number: abs(number - due),
        )

        return next(
            (
                n
                for n in near_by
                if n != due and octets == self._source.octets(stream, n)
            ),
            None,
        )


def difference(wanted: bytes, octets: bytes) -> str:
    """Return how octets differ from those that are wanted, in words."""
    if len(wanted) != len(octets):
        return f"{len(octets)} octets for {len(wanted)}"

    at = next(i for i, (a, b) in enumerate(zip(wanted, octets, strict=True)) if a != b)
    return f"octet {at} of {len(wanted)} is {octets[at]:#04x} for {wanted[at]:#04x}"


def scatter(shape: Shape, octets: bytes) -> array:  # type: ignore[type-arg]
    """Lay elements out in memory, with gaps between their parts, from their octets in a row."""

    flat = array(shape.letter, octets)
    if shape.extent == 1:
        return flat

    out = array(shape.letter, bytes(space(shape, len(octets))))
    for i, place in enumerate(shape.places):
        out[place :: shape.extent] = flat[i :: len(shape.places)]

    return out


def gather(shape: Shape, elements: array, size: int) -> bytes:  # type: ignore[type-arg]
    """Return the first ``size`` octets of elements in memory, in a row."""

    if shape.extent == 1:
        return bytes(memoryview(elements).cast("B")[:size])

    flat = array(shape.letter, bytes(size))

    count = size // shape.octets
    for i, place in enumerate(shape.places):
        flat[i :: len(shape.places)] = elements[place :: shape.extent][:count]

    return flat.tobytes()


def space(shape: Shape, size: int) -> int:
    """Return the octets in memory, with gaps, of elements with ``size`` octets of data."""
    return size // shape.octets * shape.extent * array(shape.letter).itemsize


def flat(memory: Sequence[int], limit: int) -> str:
    """Return why memory has grown beyond its early size and the allowance; empty: it has not."""
    early, late = memory[0], memory[-1]
    return (
        ""
        if late <= early + limit
        else f"{late - early} octets more at the end than early"
    )
