"""Reductions: every operation, every width, in order and in parts (IMPI 4.16 to 4.18, 4.21)."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from impi.lab.cases.case import (
    Case,
    Crossing,
    allreduce,
    collective,
    elementwise,
    everyone,
)
from impi.lab.dissect.chapter4 import group_messages
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.dissect.chapter4.group_messages import reduce, reduce_scatter, scan
from impi.lab.nodes.roster import Roster
from impi.lab.programs.payload import COMBINE, LETTERS, external, external_ints, numbers

_ADDED: Final = elementwise("i", operator.add)
_WIDTHS: Final = (
    ("SHORT", "i2"), ("UNSIGNED_SHORT", "u2"), ("INT", "i4"), ("INT64_T", "i8"), ("UINT64_T", "u8"), ("FLOAT", "f4"),
    ("DOUBLE", "f8"),
)  # fmt: skip


def _allreduced_numbers(
    roster: Roster, rows: list[list[int]], code: str, combine: Callable[[int, int], int]
) -> list[Crossing]:
    """Return an allreduce (IMPI 4.21) of numbers of each rank, as elements of numpy's ``code``."""
    parts = [external(code, row) for row in rows]
    return allreduce(
        roster, parts, elementwise(LETTERS[code], combine), unit=int(code[1:])
    )


def _ops(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for name, combine in COMBINE.items():
        rows = [numbers(nonce, f"ops/{r}", 6) for r in range(roster.size)]
        rows = [[v % 7 for v in row] if name == "PROD" else row for row in rows]
        yield from _allreduced_numbers(roster, rows, "i4", combine)


def _locations(roster: Roster, nonce: str) -> Iterator[Crossing]:
    values = [
        [v % 5 for v in numbers(nonce, f"locations/{r}", 8)] for r in range(roster.size)
    ]

    parts = [
        b"".join(struct.pack(">di", value, rank) for value in row)
        for rank, row in enumerate(values)
    ]
    for sign in (1, -1):
        messages = reduce(
            everyone(roster), roster.size - 1, parts, partial(_best, sign)
        )
        yield from collective(messages, units=(8, 4))


def _best(sign: int, one: bytes, other: bytes) -> bytes:
    """Return MAXLOC, or MINLOC if ``sign`` is negative: of equal values the lower rank's wins."""
    pairs = zip(
        struct.iter_unpack(">di", one), struct.iter_unpack(">di", other), strict=True
    )
    return b"".join(
        struct.pack(">di", *max(pair, key=lambda item: (sign * item[0], -item[1])))
        for pair in pairs
    )


def _in_order(roster: Roster, nonce: str) -> Iterator[Crossing]:
    group = everyone(roster)

    maps = [
        external_ints([v % 251 for v in numbers(nonce, f"ordered/{r}", 2)])
        for r in range(roster.size)
    ]
    for root in (0, roster.size - 1):
        yield from collective(
            reduce(group, root, maps, _composed, commute=False), units=(4,)
        )

    yield from collective(
        group_messages.allreduce(group, maps, _composed, commute=False), units=(4,)
    )
    yield from collective(scan(group, maps, _composed), units=(4,))


def _composed(one: bytes, other: bytes) -> bytes:
    """Compose two affine maps: associative, not commutative."""
    (m, c), (n, d) = struct.unpack(">2i", one), struct.unpack(">2i", other)
    return external_ints([m * n % 251, (m * d + c) % 251])


def _parts(roster: Roster, nonce: str) -> Iterator[Crossing]:
    n = roster.size

    every = [numbers(nonce, f"reduce-scatter/{r}", n * (n + 5)) for r in range(n)]
    for lengths in ([5] * n, [2 * r + 1 for r in range(n)]):
        parts = [external_ints(row[: sum(lengths)]) for row in every]
        messages = reduce_scatter(
            everyone(roster), parts, _ADDED, [4 * length for length in lengths]
        )
        yield from collective(messages, units=(4,))


def _chain(roster: Roster, nonce: str) -> Iterator[Crossing]:
    parts = [external_ints(numbers(nonce, f"scan/{r}", 10)) for r in range(roster.size)]
    # Once for Scan, once for Exscan, which sends the same message one place on.
    yield from collective(scan(everyone(roster), parts, _ADDED), count=2, units=(4,))


def _widths(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for name, code in _WIDTHS:
        rows = [
            [v % 9 for v in numbers(nonce, f"widths/{name}/{r}", 6)]
            for r in range(roster.size)
        ]
        yield from _allreduced_numbers(roster, rows, code, operator.add)


REDUCTION_CASES: Final = (
    Case(
        "reduce.ops", ("4.16", "4.21"), ("collective", "reduction"), len(COMBINE), _ops
    ),
    Case(
        "reduce.locations",
        ("1.2.2", "4.16"),
        ("collective", "reduction", "data"),
        2,
        _locations,
    ),
    Case(
        "reduce.ordered",
        ("4.16", "4.18", "4.21"),
        ("collective", "reduction"),
        4,
        _in_order,
        groups=("nodes",),
    ),
    Case("reduce.scatter", ("4.17",), ("collective", "reduction"), 2, _parts),
    Case("reduce.scan", ("4.18",), ("collective", "reduction"), 2, _chain),
    Case(
        "reduce.widths",
        ("1.2.2", "4.21"),
        ("collective", "reduction", "data"),
        len(_WIDTHS) + 1,
        _widths,
        others=(Tag.BCAST, Tag.GATHER, Tag.REDUCE),
        params={"types": [list(pair) for pair in _WIDTHS]},
    ),
)
