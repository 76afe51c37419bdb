"""Collective operations and communicators (IMPI chapter 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from impi.testbed.cases.base import COLLECTIVE, CREATED, Case, Crossing, barrier, bcast, reduction
from impi.testbed.programs.payload import external_doubles, external_ints, numbers, octets
from impi.testbed.roster import Roster

__all__ = ["COLLECTIVE_CASES"]

_GATHER_TAG, _SCATTER_TAG, _ALLTOALL_TAG = 130, 150, 170
_BCAST_TAG = 120
_XSIZE = 1024  # octets from which a collective is long (IMPI 2.3.5)


def _bcast(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for root in range(roster.size):
        yield from bcast(roster, root, external_doubles(numbers(nonce, f"bcast/{root}", 40)))


def _columns(roster: Roster, client: int, nonce: str, label: str, count: int) -> list[tuple[int, ...]]:
    return list(zip(*(numbers(nonce, f"{label}/{r}", count) for r in roster.of_client(client)), strict=True))


def _reduce(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def sums(client: int) -> bytes:
        return external_ints([sum(c) for c in _columns(roster, client, nonce, "reduce", 12)])

    def largest(client: int) -> bytes:
        return external_doubles([max(c) for c in _columns(roster, client, nonce, "reduce", 12)])

    for root in range(roster.size):
        yield from reduction(roster, root, 48, sums)
    yield from reduction(roster, 0, 96, largest)


def _allreduce(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def sums(client: int) -> bytes:
        return external_ints([sum(c) for c in _columns(roster, client, nonce, "allreduce", 8)])

    # Allreduce is Reduce to rank 0 and Bcast from there (IMPI 4.21).
    yield from reduction(roster, 0, 32, sums)
    every = zip(*(numbers(nonce, f"allreduce/{r}", 8) for r in range(roster.size)), strict=True)
    yield from bcast(roster, 0, external_ints([sum(column) for column in every]))


def _gathered(roster: Roster, root: int, label: str, size: int, nonce: str) -> Iterator[Crossing]:
    """Gather: each client's pieces from its master while short, everybody's own when long (IMPI 4.12)."""
    for client, master in enumerate(roster.masters()):
        if client == roster.client(root):
            continue
        ranks = roster.of_client(client)
        pieces = {r: octets(nonce, f"{label}/{r}", size) for r in ranks}
        sent = {master: b"".join(pieces.values())} if size < _XSIZE else pieces
        for src, data in sent.items():
            yield Crossing(src=src, dest=root, cid=COLLECTIVE, tag=_GATHER_TAG, nbytes=len(data), payload=data)


def _gather(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for root in (0, roster.size - 1):
        for size in (64, 2048):
            label = f"gather/{root}/{size}"
            yield from _gathered(roster, root, label, size, nonce)
            for rank in range(roster.size):
                if roster.remote(rank, root):
                    data = octets(nonce, f"{label}/{rank}", size)
                    yield Crossing(src=root, dest=rank, cid=COLLECTIVE, tag=_SCATTER_TAG, nbytes=size, payload=data)


def _allgather(roster: Roster, nonce: str) -> Iterator[Crossing]:
    # Allgather is Gather to rank 0 and Bcast from there (IMPI 4.19).
    yield from _gathered(roster, 0, "allgather", 80, nonce)
    yield from bcast(roster, 0, b"".join(octets(nonce, f"allgather/{r}", 80) for r in range(roster.size)))


def _alltoall(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src in range(roster.size):
        for dest in range(roster.size):
            if roster.remote(src, dest):
                data = octets(nonce, f"alltoall/{src}/{dest}", 32)
                yield Crossing(src=src, dest=dest, cid=COLLECTIVE, tag=_ALLTOALL_TAG, nbytes=32, payload=data)


def _objects(roster: Roster, nonce: str) -> Iterator[Crossing]:
    token = octets(nonce, "objects/bcast", 48)
    for edge in bcast(roster, 0, b""):
        yield Crossing(src=edge.src, dest=edge.dest, cid=COLLECTIVE, tag=_BCAST_TAG, contains=token)


def _split(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src in range(roster.size):
        dest = (src + 1) % roster.size
        if roster.remote(src, dest):
            data = octets(nonce, f"dup/{src}", 24)
            yield Crossing(src=src, dest=dest, cid=CREATED, tag=7, nbytes=24, payload=data)


COLLECTIVE_CASES: Final = (
    Case(
        name="coll.barrier",
        description="three barriers with messages between them",
        clauses=("4.10",),
        program="coll_barrier.py",
        checks=lambda _roster, _rank: 3,
        crossings=lambda roster, _nonce: barrier(roster, count=4),
    ),
    Case(
        name="coll.bcast",
        description="a broadcast from every rank",
        clauses=("4.11",),
        program="coll_bcast.py",
        checks=lambda roster, _rank: roster.size,
        crossings=_bcast,
        wide=True,
    ),
    Case(
        name="coll.reduce",
        description="a sum to every root, and a maximum",
        clauses=("4.16",),
        program="coll_reduce.py",
        checks=lambda _roster, _rank: 2,
        crossings=_reduce,
    ),
    Case(
        name="coll.allreduce",
        description="sums, minima and objects over all ranks",
        clauses=("4.21",),
        program="coll_allreduce.py",
        checks=lambda _roster, _rank: 3,
        crossings=_allreduce,
        smoke=True,
        wide=True,
    ),
    Case(
        name="coll.gather",
        description="Gather and Scatter, short and long, with the first and the last rank as root",
        clauses=("4.12", "4.14"),
        program="coll_gather.py",
        checks=lambda _roster, _rank: 8,
        crossings=_gather,
    ),
    Case(
        name="coll.allgather",
        description="everybody gets what everybody has",
        clauses=("4.19",),
        program="coll_allgather.py",
        checks=lambda _roster, _rank: 2,
        crossings=_allgather,
    ),
    Case(
        name="coll.alltoall",
        description="everybody has something of its own for everybody",
        clauses=("4.22",),
        program="coll_alltoall.py",
        checks=lambda _roster, _rank: 2,
        crossings=_alltoall,
        wide=True,
    ),
    Case(
        name="coll.objects",
        description="collective operations on Python objects",
        clauses=("4.11", "4.12", "4.14", "4.16"),
        program="coll_objects.py",
        checks=lambda _roster, _rank: 4,
        crossings=_objects,
    ),
    Case(
        name="comm.split",
        description="a duplicate, and halves that span the clients",
        clauses=("4.3", "4.6", "4.7"),
        program="comm_split.py",
        checks=lambda _roster, _rank: 5,
        crossings=_split,
        wide=True,
    ),
)
