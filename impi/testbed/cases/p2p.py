"""Point-to-point messages (IMPI chapter 3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from impi.testbed.cases.case import DATALEN, WORLD, Case, Crossing, across, barrier
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import external_doubles, external_ints, numbers, octets

_SIZES: Final = (0, 1, DATALEN - 1, DATALEN, DATALEN + 1, 1 << 20)

_Payload = Callable[[int], bytes]


def _around(roster: Roster, tag: int, payload: _Payload) -> Iterator[Crossing]:
    """Everybody to the right neighbour."""
    for src in range(roster.size):
        dest, data = (src + 1) % roster.size, payload(src)
        if roster.remote(src, dest):
            yield Crossing(src=src, dest=dest, cid=WORLD, tag=tag, nbytes=len(data), payload=data)


def _ring(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from _around(roster, 7, lambda r: octets(nonce, f"ring/{r}", 256))
    yield from _around(roster, 8, lambda r: external_doubles(numbers(nonce, f"ring/double/{r}", 32)))
    yield from _around(roster, 9, lambda r: external_ints(numbers(nonce, f"ring/int/{r}", 9)))


def _sizes(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src, dest in across(roster):
        for i, size in enumerate(_SIZES):
            data = octets(nonce, f"sizes/{src}/{size}", size)
            # Beyond the limit the first packet waits for its answer (IMPI 3.7.2).
            long = size > DATALEN
            yield Crossing(src=src, dest=dest, cid=WORLD, tag=20 + i, nbytes=size, payload=data, sync=long)


def _ssend(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src, dest in across(roster):
        data = octets(nonce, f"ssend/{src}", 64)
        for tag in (50, 51):
            yield Crossing(src=src, dest=dest, cid=WORLD, tag=tag, nbytes=64, payload=data, sync=True)
    yield from barrier(roster, count=3)


def _any(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for rank in range(1, roster.size):
        if roster.remote(rank, 0):
            for tag in (30, 31):
                data = octets(nonce, f"any/{rank}/{tag}", 10 + rank)
                yield Crossing(src=rank, dest=0, cid=WORLD, tag=tag, nbytes=len(data), payload=data)
            data = octets(nonce, f"any/reply/{rank}", 16)
            yield Crossing(src=0, dest=rank, cid=WORLD, tag=40, nbytes=16, payload=data)


P2P_CASES: Final = (
    Case(
        name="p2p.ring",
        clauses=("1.2.2", "3.5", "3.7.1"),
        tags=("p2p",),
        core=True,
        checks=lambda _roster, _rank: 4,
        crossings=_ring,
        smoke=True,
        wide=True,
    ),
    Case(
        name="p2p.sizes",
        clauses=("3.7.1", "3.7.2"),
        tags=("p2p", "long"),
        core=True,
        checks=lambda _roster, _rank: 2 * len(_SIZES),
        crossings=_sizes,
        params={"sizes": list(_SIZES)},
        wide=True,
    ),
    Case(
        name="p2p.ssend",
        clauses=("3.7.1",),
        tags=("p2p", "sync"),
        core=True,
        checks=lambda _roster, _rank: 3,
        crossings=_ssend,
    ),
    Case(
        name="p2p.any",
        clauses=("3.7.3",),
        tags=("p2p", "probe"),
        core=True,
        checks=lambda roster, rank: 2 * (roster.size - 1) + 2 if rank == 0 else 1,
        crossings=_any,
    ),
)
