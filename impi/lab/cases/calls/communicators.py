"""Communicators that the program makes (IMPI 4.3 to 4.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from impi.lab.cases.case import (
    FIRST_CREATED,
    MAKING,
    WORLD,
    Case,
    Crossing,
    across,
    around,
    by_rank,
    messages,
)
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.nodes.roster import Roster
from impi.lab.programs.payload import external_ints, numbers


def _sent(
    roster: Roster,
    pairs: Iterable[tuple[int, int]],
    payload: Callable[[int], bytes],
    *,
    nth: int = 0,
    lsrank: Callable[[int], int] = lambda rank: rank,
    unit: int = 1,
) -> list[Crossing]:
    """Return messages on the ``nth`` communicator that the program makes, with tag 7.

    The maximum of everybody's ids plus 1 is the next even number for all (IMPI 4.3.1).
    """
    crossing = (pair for pair in pairs if roster.remote(*pair))
    return messages(
        crossing, 7, payload, cid=FIRST_CREATED + 2 * nth, lsrank=lsrank, unit=unit
    )


def _dup(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for i, cid in enumerate((WORLD, FIRST_CREATED, FIRST_CREATED + 2)):
        yield from messages(
            across(roster), 7, by_rank(nonce, f"dup/{i}/*", 24), cid=cid
        )


def _create(roster: Roster, nonce: str) -> Iterator[Crossing]:
    chosen = [r for r in range(roster.size) if r != 1][::-1]

    chain = list(zip(chosen, [*chosen[1:], chosen[0]], strict=True))
    for nth, name in enumerate(("Create", "Create_group")):
        yield from _sent(
            roster,
            chain,
            by_rank(nonce, f"create/{name}/*", 18),
            nth=nth,
            lsrank=chosen.index,
        )


def _groups(roster: Roster) -> tuple[list[int], list[int]]:
    first = roster.of_client(0)
    return first, [r for r in range(roster.size) if r not in first]


def _intercomm(roster: Roster, nonce: str) -> Iterator[Crossing]:
    first, others = _groups(roster)
    pairs = list(zip(first, others, strict=False))
    both_ways = [*pairs, *((b, a) for a, b in pairs)]

    def in_group(rank: int) -> int:
        return (first if rank in first else others).index(rank)

    # The leaders speak on the communicator that both are in, with the program's tag (IMPI 4.8).
    for src, dest in ((first[0], others[0]), (others[0], first[0])):
        yield Crossing(src=src, dest=dest, cid=WORLD, tag=12, count=2)

    yield from _sent(
        roster, both_ways, by_rank(nonce, "inter/*", 22), nth=1, lsrank=in_group
    )


def _ring(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from _sent(roster, around(roster), by_rank(nonce, "cart/*", 26))


def _clients(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def inside(rank: int) -> bytes:
        rows = [
            numbers(nonce, f"clients/{r}", 4)
            for r in roster.of_client(roster.client(rank))
        ]
        return external_ints([sum(column) for column in zip(*rows, strict=True)])

    masters = roster.masters()
    ring = zip(masters, [*masters[1:], masters[0]], strict=True)
    yield from _sent(roster, ring, inside, nth=1, lsrank=roster.client, unit=4)


# Our tag of Create_group, in which the program's own tag is 4
_GROUP: Final = 640 + 4

COMMUNICATOR_CASES: Final = (
    Case(
        "comm.dup",
        ("4.3", "4.3.1", "4.6"),
        ("communicator",),
        4,
        _dup,
        communicators=2,
        others=MAKING,
    ),
    Case(
        "comm.create",
        ("4.3", "4.3.1", "4.4"),
        ("communicator",),
        lambda _roster, rank: 3 if rank == 1 else 7,
        _create,
        communicators=2,
        others=(*MAKING, _GROUP),
    ),
    Case(
        "comm.intercomm",
        ("4.8", "4.9"),
        ("communicator", "intercommunicator"),
        lambda roster, rank: (
            4 + any(rank in pair for pair in zip(*_groups(roster), strict=False))
        ),
        _intercomm,
        communicators=4,
        others=(*MAKING, Tag.MERGE, Tag.FREE),
        groups=("nodes",),
    ),
    Case(
        "comm.cart",
        ("4.3",),
        ("communicator", "topology"),
        5,
        _ring,
        communicators=3,
        others=(*MAKING, 256, 257),
    ),
    Case(
        "comm.attributes",
        ("4.6",),
        ("communicator",),
        5,
        lambda roster, nonce: _sent(
            roster, across(roster), by_rank(nonce, "attributes/*", 14)
        ),
        communicators=1,
        others=MAKING,
    ),
    Case(
        "comm.many",
        ("4.3.1", "4.5"),
        ("communicator",),
        2,
        lambda roster, nonce: _sent(
            roster, across(roster), by_rank(nonce, "many/*", 12), nth=40
        ),
        communicators=41,
        others=MAKING,
    ),
    Case(
        "comm.clients",
        ("2.5", "4.7"),
        ("communicator",),
        lambda roster, rank: 3 + 2 * (rank in roster.masters()),
        _clients,
        communicators=2,
        others=MAKING,
    ),
)
