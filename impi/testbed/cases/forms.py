"""Collective operations that move data, in all their forms (IMPI chapter 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.testbed.cases.case import COLLECTIVE, WORLD, Case, Crossing, across, barrier, bcast, reduction, remote_pairs
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import external_doubles, external_ints, numbers, octets

_GATHER_TAG, _GATHERV_TAG, _SCATTERV_TAG, _ALLTOALLV_TAG = 130, 140, 160, 180
_SCATTER_TAG, _ALLTOALL_TAG = 150, 170
_LONG: Final = 300_000
_SIZES: Final = (1024, 4096, 16384, 65536, 131072)


def _sums(nonce: str, label: str, ranks: list[int], count: int) -> list[int]:
    return [sum(column) for column in zip(*(numbers(nonce, f"{label}/{r}", count) for r in ranks), strict=True)]


def _allreduced(roster: Roster, nonce: str, label: str, count: int) -> Iterator[Crossing]:
    """A sum of ints: Reduce to rank 0 and Bcast from there (IMPI 4.21)."""

    def of(client: int) -> bytes:
        return external_ints(_sums(nonce, label, roster.of_client(client), count))

    yield from reduction(roster, 0, 4 * count, of)
    yield from bcast(roster, 0, external_ints(_sums(nonce, label, list(range(roster.size)), count)), unit=4)


def _long(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from bcast(roster, roster.size - 1, octets(nonce, "long/bcast", _LONG))
    for rank in range(roster.size):
        if roster.remote(rank, 0):
            data = octets(nonce, f"long/gather/{rank}", _LONG)
            yield Crossing(src=rank, dest=0, cid=COLLECTIVE, tag=_GATHER_TAG, nbytes=_LONG, payload=data, sync=True)

    def sums(ranks: list[int]) -> bytes:
        return external_doubles(_sums(nonce, "long/sum", ranks, _LONG // 8))

    yield from reduction(roster, 0, _LONG // 8 * 8, lambda client: sums(roster.of_client(client)), units=(8,))
    yield from bcast(roster, 0, sums(list(range(roster.size))), unit=8)


def _vectors(roster: Roster, nonce: str) -> Iterator[Crossing]:
    every = [octets(nonce, f"vectors/{r}", 3 * r + 1) for r in range(roster.size)]
    for root in (0, roster.size - 1):
        for rank, data in enumerate(every):
            if roster.remote(rank, root):
                for src, dest, tag in ((rank, root, _GATHERV_TAG), (root, rank, _SCATTERV_TAG)):
                    yield Crossing(src=src, dest=dest, cid=COLLECTIVE, tag=tag, nbytes=len(data), payload=data)
    # Allgatherv is Gatherv to rank 0 and Bcast from there (IMPI 4.20).
    for rank, data in enumerate(every):
        if roster.remote(rank, 0):
            yield Crossing(src=rank, dest=0, cid=COLLECTIVE, tag=_GATHERV_TAG, nbytes=len(data), payload=data)
    yield from bcast(roster, 0, b"".join(every))


def _alltoallv(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src, dest in remote_pairs(roster):
        data = octets(nonce, f"alltoallv/{src}/{dest}", 8 * (src + dest))
        yield Crossing(src=src, dest=dest, cid=COLLECTIVE, tag=_ALLTOALLV_TAG, nbytes=len(data), payload=data, count=2)


def _nonblocking(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src, dest in across(roster):
        data = octets(nonce, f"nonblocking/note/{src}", 20)
        yield Crossing(src=src, dest=dest, cid=WORLD, tag=72, nbytes=20, payload=data)
    yield from bcast(roster, 0, external_ints(numbers(nonce, "nonblocking/bcast", 15)), unit=4)
    yield from _allreduced(roster, nonce, "nonblocking", 9)
    pieces = b"".join(external_ints(numbers(nonce, f"nonblocking/{r}", 9)) for r in range(roster.size))
    yield from bcast(roster, 0, pieces, unit=4)
    yield from barrier(roster)


def _persistent(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for turn in range(3):
        yield from _allreduced(roster, nonce, f"persistent/{turn}", 7)
        yield from bcast(roster, roster.size - 1, external_ints(numbers(nonce, f"persistent/bcast/{turn}", 11)), unit=4)


def _in_place(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def of(client: int) -> bytes:
        return external_ints(_sums(nonce, "in-place", roster.of_client(client), 4))

    yield from reduction(roster, 0, 16, of)
    whole = b"".join(external_ints(numbers(nonce, f"in-place/{r}", 4)) for r in range(roster.size))
    yield from bcast(roster, 0, whole, unit=4)


def _sized(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for n in _SIZES:
        yield from bcast(roster, 0, octets(nonce, f"sizes/bcast/{n}", n))
        for rank in range(roster.size):
            if roster.remote(rank, 0):
                data = octets(nonce, f"sizes/gather/{n}/{rank}", n)
                for src, dest, tag in ((rank, 0, _GATHER_TAG), (0, rank, _SCATTER_TAG)):
                    yield Crossing(src=src, dest=dest, cid=COLLECTIVE, tag=tag, nbytes=n, payload=data)

        def sums(ranks: list[int], n: int = n) -> bytes:
            return external_doubles(_sums(nonce, f"sizes/sum/{n}", ranks, n // 8))

        yield from reduction(roster, 0, n, lambda client, of=sums: of(roster.of_client(client)), units=(8,))  # type: ignore[misc]
        yield from bcast(roster, 0, sums(list(range(roster.size))), unit=8)
        for src, dest in remote_pairs(roster):
            data = octets(nonce, f"sizes/alltoall/{n}/{src}/{dest}", n)
            yield Crossing(src=src, dest=dest, cid=COLLECTIVE, tag=_ALLTOALL_TAG, nbytes=n, payload=data)


FORM_CASES: Final = (
    Case(
        "coll.sizes",
        ("4.11", "4.12", "4.14", "4.16", "4.21", "4.22"),
        ("collective", "long"),
        5 * len(_SIZES),
        _sized,
        params={"sizes": list(_SIZES)},
        core=True,
        nodes=True,
    ),
    Case(
        "coll.long",
        ("3.7.2", "4.11", "4.12", "4.16"),
        ("collective", "long"),
        3,
        _long,
        params={"size": _LONG},
        nodes=True,
    ),
    Case("coll.vectors", ("4.13", "4.15", "4.20"), ("collective",), 5, _vectors, nodes=True),
    Case("coll.alltoallv", ("4.23",), ("collective",), 2, _alltoallv),
    Case(
        "coll.nonblocking",
        ("4.10", "4.11", "4.19", "4.21"),
        ("collective", "nonblocking"),
        4,
        _nonblocking,
        others=(_GATHER_TAG,),
    ),
    Case("coll.persistent", ("4.11", "4.21"), ("collective", "nonblocking"), 6, _persistent),
    Case(
        "coll.in-place",
        ("4.12", "4.14", "4.16", "4.18", "4.19", "4.22"),
        ("collective",),
        6,
        _in_place,
        others=(_GATHER_TAG, 150, 170, 200),
    ),
)
