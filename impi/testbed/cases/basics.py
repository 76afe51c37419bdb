"""The four collectives that every implementation of IMPI has, each by itself (IMPI chapter 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.testbed.cases.case import Case, Crossing, around, barrier, bcast, messages, reduction
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import external_doubles, external_ints, numbers, octets

_LONG: Final = 300_000


def _columns(ranks: list[int], nonce: str, label: str, count: int) -> list[tuple[int, ...]]:
    return list(zip(*(numbers(nonce, f"{label}/{r}", count) for r in ranks), strict=True))


def barriers(roster: Roster, _nonce: str) -> Iterator[Crossing]:
    """Barriers with messages between them."""
    yield from barrier(roster, count=3)
    for i in range(3):
        yield from messages(around(roster), 70, lambda _rank, i=i: external_ints([i]), unit=4)  # type: ignore[misc]


def bcast_from(roster: Roster, root: int, nonce: str) -> Iterator[Crossing]:
    """One broadcast of 40 doubles."""
    yield from bcast(roster, root, external_doubles(numbers(nonce, f"bcast/{root}", 40)), unit=8)


def reduce_to(roster: Roster, root: int, nonce: str) -> Iterator[Crossing]:
    """One sum of 12 integers."""

    def sums(client: int) -> bytes:
        return external_ints([sum(c) for c in _columns(roster.of_client(client), nonce, "reduce", 12)])

    yield from reduction(roster, root, 48, sums)


def _bcast(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for root in range(roster.size):
        yield from bcast_from(roster, root, nonce)


def _reduce(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for root in range(roster.size):
        yield from reduce_to(roster, root, nonce)


def allreduce(roster: Roster, nonce: str) -> Iterator[Crossing]:
    """A sum and a maximum: Reduce to rank 0 and Bcast from there (IMPI 4.21)."""

    def sums(ranks: list[int]) -> bytes:
        return external_ints([sum(c) for c in _columns(ranks, nonce, "allreduce", 8)])

    def largest(ranks: list[int]) -> bytes:
        return external_doubles([max(c) for c in _columns(ranks, nonce, "allreduce", 8)])

    everybody = list(range(roster.size))
    for result, size in ((sums, 4), (largest, 8)):
        yield from reduction(
            roster,
            0,
            8 * size,
            lambda client, of=result: of(roster.of_client(client)),  # type: ignore[misc]
            units=(size,),
        )
        yield from bcast(roster, 0, result(everybody), unit=size)


def _bcast_long(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from bcast(roster, roster.size - 1, octets(nonce, "long/bcast", _LONG))


BASIC_CASES: Final = (
    Case("coll.barrier", ("4.10",), ("collective",), 3, barriers),
    Case("coll.bcast", ("4.11",), ("collective",), lambda roster, _rank: roster.size, _bcast),
    Case("coll.bcast-long", ("3.7.2", "4.11"), ("collective", "long"), 1, _bcast_long, params={"size": _LONG}),
    Case("coll.reduce", ("4.16",), ("collective", "reduction"), 1, _reduce),
    Case("coll.allreduce", ("4.21",), ("collective", "reduction"), 2, allreduce),
)
