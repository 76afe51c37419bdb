"""Beyond IMPI 0.0: files, processes that come later, LCOs and endpoints.

*Files* of procs of several clients are one for all, or accessed by one client for all. The nodes of
containers share none, so what other clients write crosses to the client that has the file.

*Later*: a spawned job, and the channels between it and its parents. What crosses to another job is
judged apart (``impi.lab.dissect.jobs.meetings``).

*LCOs* are made by one proc alone, and the threads of *endpoints* are ranks; no context id is agreed
on. Their packets are messages of MPI_COMM_WORLD's collectives with tags of their own. A short
message to an open slot is one of the slot's own context id; here both stand for the same demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.lab.cases.case import (
    COLLECTIVE,
    FIRST_CREATED,
    LCO_TAG,
    MAKING,
    WORLD,
    Case,
    Crossing,
    Launch,
    barrier,
)
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.nodes.roster import Roster
from impi.lab.programs.payload import octets

_BLOCK: Final = 32
_BLOCKS: Final = 4
# The tag by which parts of a file travel: that of Alltoall, as pickles
_PARTS: Final = Tag.ALLTOALL
# Tags of collectives of objects, by which procs agree
_OTHERS: Final = (*MAKING, Tag.GATHERV, _PARTS, Tag.FREE)
# The collectives of the second file, behind a first one and a communicator of the program.
_FILE: Final = FIRST_CREATED + 2 * 2 + 1


def _team(roster: Roster) -> list[int]:
    """Return client 0's ranks on the node of rank 0, and all other ranks."""
    here = roster.ranks[0].node
    return [
        r
        for r in range(roster.size)
        if roster.client(r) != 0 or roster.ranks[r].node == here
    ]


def _written(roster: Roster, nonce: str) -> Iterator[Crossing]:
    team, size = _team(roster), _BLOCK * _BLOCKS

    yield from barrier(roster)
    for number, rank in enumerate(team):
        if roster.client(rank) == 0:
            continue

        # A file of few octets is one domain of access, and one rank stands for it.
        for src, dest, of in ((rank, 0, number), (0, rank, (number + 1) % len(team))):
            data = octets(nonce, f"one/{of}", size)
            yield Crossing(
                src=src, dest=dest, cid=_FILE, tag=_PARTS, contains=data, units=()
            )


_CHILDREN: Final = 2


def _met(roster: Roster, nonce: str) -> Iterator[Crossing]:
    """Return the messages of the children with rank 0, on whose node they run: all others cross."""
    for parent in (p.rank for p in roster.ranks if p.node != roster.ranks[0].node):
        for number in range(_CHILDREN):
            child = roster.size + number
            asked = octets(nonce, f"parent/{parent}/{number}", 64)
            answer = asked + octets(nonce, f"child/{number}/{parent}", 64)
            yield Crossing(
                src=parent,
                dest=child,
                cid=FIRST_CREATED,
                tag=7,
                nbytes=64,
                payload=asked,
            )
            yield Crossing(
                src=child,
                dest=parent,
                cid=FIRST_CREATED,
                tag=8,
                nbytes=128,
                payload=answer,
            )


_APART: Final = 252  # tag of long data behind their packets
_COUNT: Final = 5
_LONG: Final = 20_000
_ENDPOINTS: Final = 2


def _sent(src: int, dest: int, data: bytes, *, tag: int = LCO_TAG) -> Crossing:
    return Crossing(
        src=src, dest=dest, cid=COLLECTIVE, tag=tag, contains=data, units=()
    )


def _channels(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src in range(roster.size):
        dest = (src + roster.size // 2) % roster.size
        if not roster.remote(src, dest):
            continue

        # The name of the receiver's object comes the other way.
        yield Crossing(src=dest, dest=src, cid=WORLD, tag=9)
        for i in range(_COUNT):
            yield _sent(src, dest, octets(nonce, f"lco/{src}/{i}", 48))

        yield _sent(src, dest, octets(nonce, f"lco/long/{src}", _LONG), tag=_APART)

    yield from barrier(roster)


def _ring(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src in range(roster.size):
        last = _ENDPOINTS * src + _ENDPOINTS - 1

        dest = (src + 1) % roster.size
        if roster.remote(src, dest):
            yield _sent(src, dest, octets(nonce, f"endpoint/{last}", 80))

    # Endpoints are made by a barrier of the processes, and the program has one behind the threads.
    yield from barrier(roster, count=2)


BEYOND_CASES: Final = (
    Case(
        "files.shared",
        (),
        ("file",),
        lambda roster, rank: 4 if rank == 0 else 3 if rank in _team(roster) else 2,
        _written,
        params={"block": _BLOCK, "count": _BLOCKS},
        communicators=3,
        others=_OTHERS,
        groups=("trio",),
    ),
    Case(
        "later.spawn",
        (),
        ("later",),
        2 + _CHILDREN,
        lambda _roster, _nonce: (),
        meetings=_met,
        params={"children": _CHILDREN},
        communicators=1,
        others=MAKING,  # by these the parents agree on whom they have met
        # the children take no such options, and both jobs must have one form of data
        launch=Launch(options=()),
        groups=("once",),
    ),
    Case(
        "later.port",
        (),
        ("later",),
        2,
        lambda _roster, _nonce: (),
        groups=("once",),
    ),
    Case(
        "later.callers",
        (),
        ("later",),
        lambda _roster, rank: 2 if rank == 0 else 1,
        lambda _roster, _nonce: (),
        traffic="any",
        groups=("once",),
    ),
    Case(
        "lco.channel",
        (),
        ("lco",),
        _COUNT + 3,
        _channels,
        params={"count": _COUNT, "long": _LONG},
        others=(LCO_TAG, _APART),
        groups=("once",),
    ),
    Case(
        "endpoints.ring",
        (),
        ("lco", "endpoint"),
        1 + 3 * _ENDPOINTS,
        _ring,
        params={"endpoints": _ENDPOINTS},
        others=(LCO_TAG, _APART, Tag.BCAST, Tag.GATHER, Tag.REDUCE),
        groups=("once",),
    ),
)
