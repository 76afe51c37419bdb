"""LCOs, which one proc makes alone, and endpoints, whose threads are ranks.

Both are impi's own, and no context id is agreed on. Their packets are messages of MPI_COMM_WORLD's
collectives with tags of their own. A short message to an open slot is one of the slot's own context
id; here both stand for the same demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.testbed.cases.case import COLLECTIVE, LCO_TAG, WORLD, Case, Crossing, barrier
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import octets

_APART: Final = 252
"""Tag of long data behind their packets."""
_COUNT: Final = 5
_LONG: Final = 20_000
_ENDPOINTS: Final = 2


def _sent(src: int, dest: int, data: bytes, *, tag: int = LCO_TAG) -> Crossing:
    return Crossing(src=src, dest=dest, cid=COLLECTIVE, tag=tag, contains=data, units=())


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


OBJECT_CASES: Final = (
    Case(
        "lco.channel",
        (),
        ("lco",),
        _COUNT + 3,
        _channels,
        params={"count": _COUNT, "long": _LONG},
        others=(LCO_TAG, _APART),
        once=True,
    ),
    Case(
        "endpoints.ring",
        (),
        ("lco", "endpoint"),
        1 + 2 * _ENDPOINTS,
        _ring,
        params={"endpoints": _ENDPOINTS},
        others=(LCO_TAG, _APART, 120, 130, 190),
        once=True,
    ),
)
