"""Files of procs of several clients: one for all, or accessed by one client for all.

IMPI 0.0 says nothing of files. The nodes of containers share none, so what other clients write
crosses to the client that has the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.testbed.cases.case import FIRST_CREATED, MAKING, Case, Crossing, barrier
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import octets

_BLOCK: Final = 32
_COUNT: Final = 4
_PARTS: Final = 170
"""The tag by which parts of a file travel: that of Alltoall, as pickles."""
_OTHERS: Final = (*MAKING, 140, _PARTS, 230)
"""Tags of collectives of objects, by which procs agree."""
_FILE: Final = FIRST_CREATED + 2 * 2 + 1
"""The collectives of the second file, behind a first one and a communicator of the program."""


def _team(roster: Roster) -> list[int]:
    """Client 0's ranks on the node of rank 0, and all others."""
    here = roster.ranks[0].node
    return [r for r in range(roster.size) if roster.client(r) != 0 or roster.ranks[r].node == here]


def _written(roster: Roster, nonce: str) -> Iterator[Crossing]:
    team, size = _team(roster), _BLOCK * _COUNT
    yield from barrier(roster)
    for number, rank in enumerate(team):
        if roster.client(rank) == 0:
            continue
        # So few octets are one domain of the file, for which one rank stands.
        for src, dest, of in ((rank, 0, number), (0, rank, (number + 1) % len(team))):
            data = octets(nonce, f"one/{of}", size)
            yield Crossing(src=src, dest=dest, cid=_FILE, tag=_PARTS, contains=data, units=())


FILE_CASES: Final = (
    Case(
        "files.shared",
        (),
        ("file",),
        lambda roster, rank: 4 if rank == 0 else 3 if rank in _team(roster) else 2,
        _written,
        params={"block": _BLOCK, "count": _COUNT},
        communicators=3,
        others=_OTHERS,
        trio=True,
    ),
)
