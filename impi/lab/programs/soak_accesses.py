"""The one-sided operations of a soak, by its seed alone: who accesses what, and in which epoch.

The memory of each rank has counters, a part in which all ranks accumulate, and three parts for each
origin: one that it accumulates into, and two halves that it puts to and gets from. A round puts to
one half and gets from the other, so no two operations of a round touch the same place, except
accumulations.
"""

from __future__ import annotations

import math
import random
import zlib
from array import array
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from soak_streams import (  # type: ignore[import-not-found]
    HEAD,
    ROUND,
    SHAPES,
    Shape,
    length,
    mix,
    space,
)

T = TypeVar("T")

EPOCHS = ("fence", "groups", "shared", "exclusive", "all")
WINDOWS = ("created", "allocated", "dynamic")
COUNTERS = {"counter": 0, "chain": 8, "turns": 16}  # by lane: the octet of its counter
FETCHING = ("Get", "Get_accumulate", "Fetch_and_op", "Compare_and_swap")
PATTERN = 0xA5  # what no operation has stored to yet
# Datatypes of the same elements: the origin may have one, and the target another
_FAMILIES = (
    ("octets",),
    ("shorts", "blocks"),
    ("ints", "columns"),
    ("longs", "spaced"),
    ("doubles",),
    ("records",),
)
_SUMMED = ("longs", "spaced")
# By chance: a put, a get, an accumulation of all ranks, one of an origin alone, a count
_LANES = ("put",) * 5 + ("get",) * 4 + ("shared",) * 3 + ("order",) * 3 + ("counter",)
_ORDERED = ("Accumulate", "Get_accumulate", "Fetch_and_op", "Compare_and_swap")
_PLACES = (1, 1, 2, 9)  # first elements of accumulations in order, so that they overlap
_SPREAD = 1 << 16
_RESERVED = 128  # octets of memory that each put has, however long the others are
_SPARE = 4096


class Access(NamedTuple):
    """One operation of a round."""

    turn: int  # the round
    origin: int
    target: int
    number: int  # its number among those of this pair in the round
    lane: str  # put, get, shared, order; or a counter's name
    call: str
    at: int = 0  # the first octet in the target's memory
    near: str = "longs"  # the shape of the elements at the origin
    far: str = "longs"  # and at the target
    octets: int = 8  # of data
    op: str = ""
    first: int = 0  # the first value of an accumulation; those after it grow by 1
    compare: int = (
        1  # whether a Compare_and_swap stores; in ``settled`` ones: what it compares
    )
    whole: bool = (
        False  # the target's elements are one of a datatype of this operation alone
    )
    by_request: bool = False

    @property
    def fetches(self) -> bool:
        return self.call in FETCHING

    @property
    def shape(self) -> Shape:
        return SHAPES[self.far]

    @property
    def span(self) -> int:
        """Octets from its first one in the target's memory to its last, with gaps."""
        return int(space(self.shape, self.octets))

    @property
    def values(self) -> array[int]:
        return array("q", range(self.first, self.first + self.octets // 8))

    def __str__(self) -> str:
        what = f"{self.call} {self.number} of round {self.turn} by rank {self.origin} to {self.target}"
        how = f" of {self.op}" if self.op else ""
        return f"{what} ({self.lane}: {self.octets} octets{how} as {self.far} at {self.at})"


class Layout:
    """The places of all parts in the memory of a rank, in octets."""

    def __init__(self, size: int, longest: int) -> None:
        self.longest = longest - longest % 16
        self.shared = 64
        self.room = self.longest + _SPARE  # of accumulations
        self._half = self.longest + _SPREAD
        self._part = self.room + 2 * self._half
        self.octets = self.shared + self.room + size * self._part

    def order(self, origin: int) -> int:
        return self.shared + self.room + origin * self._part

    def half(self, origin: int, number: int) -> int:
        return self.order(origin) + self.room + number % 2 * self._half

    def end_of_half(self, origin: int, number: int) -> int:
        return self.half(origin, number) + self._half


class _Drawn:
    """Numbers that follow from the words."""

    def __init__(self, *words: int) -> None:
        self._key, self._count = mix(*words), 0

    def bits(self) -> int:
        self._count += 1
        return int(mix(self._key, self._count))

    def one(self, among: Sequence[T]) -> T:
        return among[self.bits() % len(among)]


class Plan:
    """All operations of all ranks, by seed."""

    def __init__(self, seed: int, size: int, longest: int) -> None:
        """``longest``: octets of the longest operation, beyond what one packet may have."""
        self.layout = Layout(size, longest)
        self.size = size
        self._seed = seed
        self._pool = random.Random(seed).randbytes(longest + _SPREAD)  # noqa: S311  (octets that can be repeated)

    # -- what all ranks share in a round

    def epoch(self, turn: int) -> str:
        return EPOCHS[mix(self._seed, turn, 1) % len(EPOCHS)]

    def window(self, turn: int) -> str:
        return WINDOWS[mix(self._seed, turn, 2) % len(WINDOWS)]

    def meet(self, turn: int, origin: int, target: int) -> bool:
        """Whether an origin accesses a target; some pairs do not, where epochs have groups."""
        return (
            self.epoch(turn) != "groups"
            or mix(self._seed, turn, origin, target) % 4 > 0
        )

    def draw(self, turn: int, *words: int) -> int:
        """Return a number for how a rank makes a call."""
        return int(mix(self._seed, turn, 3, *words))

    def operations(self, turn: int) -> int:
        """Return how many operations all ranks perform."""
        ranks = range(self.size)
        of_pairs = [
            ROUND + self._takes_turn(turn, origin, target) * 2
            for origin in ranks
            for target in ranks
            if self.meet(turn, origin, target)
        ]
        return int(sum(of_pairs)) + self.size * (self.epoch(turn) == "all")

    def _takes_turn(self, turn: int, origin: int, target: int) -> bool:
        chance = mix(self._seed, turn, 4, origin, target) % 2
        return self.epoch(turn) == "exclusive" and bool(chance)

    # -- the operations of a pair

    def accesses(self, turn: int, origin: int, target: int) -> list[Access]:
        """Return what a rank does at another one, in order.

        The lanes ``chain`` and ``turns`` are at the end: a swap that is repeated until it has
        counted, and a Get and a Put that count under an exclusive lock.
        """
        if not self.meet(turn, origin, target):
            return []

        drawn = _Drawn(self._seed, turn, origin, target)
        requests = self.epoch(turn) not in ("fence", "groups")
        same = drawn.one(("REPLACE", "SUM", "BXOR", "MAX"))

        accesses: list[Access] = []
        free = self.layout.half(origin, turn)
        for i in range(ROUND):
            known = Access(turn, origin, target, i, drawn.one(_LANES), "")
            if known.lane == "put":
                access = self._put(drawn, known, free)
                free = access.at + access.span + -access.span % 8
            elif known.lane == "get":
                access = self._get(drawn, known)
            elif known.lane == "counter":
                access = known._replace(call="Fetch_and_op", op="SUM", first=1)
            else:
                access = self._accumulation(drawn, known, same)

            by_request = requests and access.call not in (
                "Fetch_and_op",
                "Compare_and_swap",
            )
            accesses.append(
                access._replace(by_request=by_request and drawn.bits() % 2 > 0)
            )

        return [*accesses, *self._counts(turn, origin, target)]

    def _counts(self, turn: int, origin: int, target: int) -> list[Access]:
        counts = []
        if self.epoch(turn) == "all" and target == self.draw(turn) % self.size:
            counts.append(
                Access(turn, origin, target, ROUND, "chain", "Compare_and_swap")
            )

        if self._takes_turn(turn, origin, target):
            counts.append(Access(turn, origin, target, ROUND, "turns", "Get and Put"))

        return [each._replace(at=COUNTERS[each.lane]) for each in counts]

    def _sized(
        self, drawn: _Drawn, known: Access, family: tuple[str, ...], room: int
    ) -> Access:
        """Return the operation with shapes and a length, whose span is at most ``room`` octets."""

        near, far = drawn.one(family), drawn.one(family)
        unit = math.lcm(*(SHAPES[name].octets for name in family))
        octets = length(drawn.bits(), self.layout.longest)
        access = known._replace(
            near=near, far=far, octets=max(unit, octets - octets % unit)
        )
        if access.span > room:
            access = access._replace(octets=unit)

        single = access.shape.places == (0,) and access.shape.extent > 1
        return access._replace(whole=single and drawn.bits() % 4 == 0)

    def _put(self, drawn: _Drawn, known: Access, free: int) -> Access:
        at = free + 8 * (drawn.bits() % 8)
        left = self.layout.end_of_half(known.origin, known.turn) - at
        room = left - _RESERVED * (ROUND - known.number)
        return self._sized(
            drawn, known._replace(call="Put", at=at), drawn.one(_FAMILIES), room
        )

    def _get(self, drawn: _Drawn, known: Access) -> Access:
        """Return a get whose place and length are still open; ``first`` is for their draw."""
        return known._replace(call="Get", first=drawn.bits())

    def _accumulation(self, drawn: _Drawn, known: Access, same: str) -> Access:
        """Return an accumulation; all that may touch one place in an epoch have one operation."""

        part, call = self.layout.order(known.origin), drawn.one(_ORDERED)
        first = known.turn << 20 | drawn.bits() & 0xFFFFF
        if known.lane == "shared":
            op = ("SUM", "SUM", "BXOR", "MAX")[self.draw(known.turn, 1) % 4]
            known = known._replace(call="Accumulate", op=op, first=first)
            access = self._sized(drawn, known, _SUMMED, self.layout.room)
            gap = self.layout.room - access.span
            return access._replace(
                at=self.layout.shared + drawn.bits() % (gap // 8 + 1) * 8
            )

        known = known._replace(call=call, first=first)
        if call == "Compare_and_swap":
            return known._replace(at=part, compare=int(drawn.bits() % 4 > 0))

        op = "NO_OP" if call != "Accumulate" and drawn.bits() % 3 == 0 else same
        known = known._replace(op=op, at=part + 8 * drawn.one(_PLACES))
        if call == "Fetch_and_op":
            return known

        return self._sized(drawn, known, _SUMMED, self.layout.room + part - known.at)

    def octets(self, put: Access) -> bytes:
        """Return the octets of a put; a short one has the beginning only."""

        key = put.origin << 20 | put.target << 8 | put.number
        at = mix(self._seed, put.turn, key) % _SPREAD
        body = self._pool[at : at + max(0, put.octets - HEAD.size)]
        head = HEAD.pack(put.turn, key, put.octets, zlib.crc32(body))

        return bytes((head + body)[: put.octets])
