"""Communicators that the program makes (IMPI 4.3 to 4.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from impi.testbed.cases.case import CREATED, Case, Crossing, across
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import external_ints, numbers, octets


def _sent(roster: Roster, pairs: Iterable[tuple[int, int]], payload: Callable[[int], bytes]) -> Iterator[Crossing]:
    """On a communicator of the program, with tag 7."""
    for src, dest in pairs:
        if roster.remote(src, dest):
            data = payload(src)
            yield Crossing(src=src, dest=dest, cid=CREATED, tag=7, nbytes=len(data), payload=data)


def _dup(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for i in (1, 2):
        yield from _sent(roster, across(roster), lambda r, i=i: octets(nonce, f"dup/{i}/{r}", 24))  # type: ignore[misc]


def _create(roster: Roster, nonce: str) -> Iterator[Crossing]:
    chosen = [r for r in range(roster.size) if r != 1][::-1]
    around = list(zip(chosen, [*chosen[1:], chosen[0]], strict=True))
    for name in ("Create", "Create_group"):
        yield from _sent(roster, around, lambda r, n=name: octets(nonce, f"create/{n}/{r}", 18))  # type: ignore[misc]


def _groups(roster: Roster) -> tuple[list[int], list[int]]:
    """The first client, and all others."""
    first = roster.of_client(0)
    return first, [r for r in range(roster.size) if r not in first]


def _intercomm(roster: Roster, nonce: str) -> Iterator[Crossing]:
    pairs = list(zip(*_groups(roster), strict=False))
    both_ways = [*pairs, *((b, a) for a, b in pairs)]
    yield from _sent(roster, both_ways, lambda r: octets(nonce, f"inter/{r}", 22))


def _ring(roster: Roster, nonce: str) -> Iterator[Crossing]:
    around = [(r, (r + 1) % roster.size) for r in range(roster.size)]
    yield from _sent(roster, around, lambda r: octets(nonce, f"cart/{r}", 26))


def _clients(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def inside(rank: int) -> bytes:
        rows = [numbers(nonce, f"clients/{r}", 4) for r in roster.of_client(roster.client(rank))]
        return external_ints([sum(column) for column in zip(*rows, strict=True)])

    masters = roster.masters()
    yield from _sent(roster, zip(masters, [*masters[1:], masters[0]], strict=True), inside)


COMMUNICATOR_CASES: Final = (
    Case(
        name="comm.dup",
        clauses=("4.3", "4.6"),
        tags=("communicator",),
        checks=lambda _roster, _rank: 4,
        crossings=_dup,
    ),
    Case(
        name="comm.create",
        clauses=("4.3", "4.4"),
        tags=("communicator",),
        checks=lambda _roster, rank: 2 if rank == 1 else 6,
        crossings=_create,
    ),
    Case(
        name="comm.intercomm",
        clauses=("4.8", "4.9"),
        tags=("communicator", "intercommunicator"),
        checks=lambda roster, rank: 3 + any(rank in pair for pair in zip(*_groups(roster), strict=False)),
        crossings=_intercomm,
        nodes=True,
    ),
    Case(
        name="comm.cart",
        clauses=("4.3",),
        tags=("communicator", "topology"),
        checks=lambda _roster, _rank: 5,
        crossings=_ring,
    ),
    Case(
        name="comm.attributes",
        clauses=("4.6",),
        tags=("communicator",),
        checks=lambda _roster, _rank: 5,
        crossings=lambda roster, nonce: _sent(roster, across(roster), lambda r: octets(nonce, f"attributes/{r}", 14)),
    ),
    Case(
        name="comm.many",
        clauses=("4.3.1", "4.5"),
        tags=("communicator",),
        checks=lambda _roster, _rank: 2,
        crossings=lambda roster, nonce: _sent(roster, across(roster), lambda r: octets(nonce, f"many/{r}", 12)),
    ),
    Case(
        name="comm.clients",
        clauses=("2.5", "4.7"),
        tags=("communicator",),
        checks=lambda roster, rank: 2 + (rank in roster.masters()),
        crossings=_clients,
    ),
)
