"""Communicators that the program makes (IMPI 4.3 to 4.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from impi.testbed.cases.case import CREATED, Case, Crossing, across, around, messages
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import external_ints, numbers, octets


def _sent(roster: Roster, pairs: Iterable[tuple[int, int]], payload: Callable[[int], bytes]) -> list[Crossing]:
    """On a communicator of the program, with tag 7."""
    return messages((pair for pair in pairs if roster.remote(*pair)), 7, payload, cid=CREATED)


def _dup(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for i in (1, 2):
        yield from _sent(roster, across(roster), lambda r, i=i: octets(nonce, f"dup/{i}/{r}", 24))  # type: ignore[misc]


def _create(roster: Roster, nonce: str) -> Iterator[Crossing]:
    chosen = [r for r in range(roster.size) if r != 1][::-1]
    chain = list(zip(chosen, [*chosen[1:], chosen[0]], strict=True))
    for name in ("Create", "Create_group"):
        yield from _sent(roster, chain, lambda r, n=name: octets(nonce, f"create/{n}/{r}", 18))  # type: ignore[misc]


def _groups(roster: Roster) -> tuple[list[int], list[int]]:
    """The first client, and all others."""
    first = roster.of_client(0)
    return first, [r for r in range(roster.size) if r not in first]


def _intercomm(roster: Roster, nonce: str) -> Iterator[Crossing]:
    pairs = list(zip(*_groups(roster), strict=False))
    both_ways = [*pairs, *((b, a) for a, b in pairs)]
    yield from _sent(roster, both_ways, lambda r: octets(nonce, f"inter/{r}", 22))


def _ring(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from _sent(roster, around(roster), lambda r: octets(nonce, f"cart/{r}", 26))


def _clients(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def inside(rank: int) -> bytes:
        rows = [numbers(nonce, f"clients/{r}", 4) for r in roster.of_client(roster.client(rank))]
        return external_ints([sum(column) for column in zip(*rows, strict=True)])

    masters = roster.masters()
    yield from _sent(roster, zip(masters, [*masters[1:], masters[0]], strict=True), inside)


COMMUNICATOR_CASES: Final = (
    Case("comm.dup", ("4.3", "4.6"), ("communicator",), 4, _dup),
    Case("comm.create", ("4.3", "4.4"), ("communicator",), lambda _roster, rank: 2 if rank == 1 else 6, _create),
    Case(
        "comm.intercomm",
        ("4.8", "4.9"),
        ("communicator", "intercommunicator"),
        lambda roster, rank: 3 + any(rank in pair for pair in zip(*_groups(roster), strict=False)),
        _intercomm,
        nodes=True,
    ),
    Case("comm.cart", ("4.3",), ("communicator", "topology"), 5, _ring),
    Case(
        "comm.attributes",
        ("4.6",),
        ("communicator",),
        5,
        lambda roster, nonce: _sent(roster, across(roster), lambda r: octets(nonce, f"attributes/{r}", 14)),
    ),
    Case(
        "comm.many",
        ("4.3.1", "4.5"),
        ("communicator",),
        2,
        lambda roster, nonce: _sent(roster, across(roster), lambda r: octets(nonce, f"many/{r}", 12)),
    ),
    Case(
        "comm.clients", ("2.5", "4.7"), ("communicator",), lambda roster, rank: 2 + (rank in roster.masters()), _clients
    ),
)
