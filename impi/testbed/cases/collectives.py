"""Collective operations, communicators and Python objects (IMPI chapter 4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from impi.testbed.cases.basics import allreduce, barriers, bcast_from, reduce_to
from impi.testbed.cases.case import (
    COLLECTIVE,
    FIRST_CREATED,
    MAKING,
    WORLD,
    Case,
    Crossing,
    around,
    bcast,
    converging,
    messages,
)
from impi.testbed.lab.roster import Roster
from impi.testbed.programs.payload import octets

_BCAST_TAG, _GATHER_TAG, _SCATTER_TAG, _ALLTOALL_TAG = 120, 130, 150, 170
_XSIZE = 1024  # octets from which a collective is long (IMPI 2.3.5)


def _rooted(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for root in range(roster.size):
        yield from bcast_from(roster, root, nonce)
        yield from reduce_to(roster, root, nonce)
    for root in (0, roster.size - 1):
        for size in (64, 2048):
            label = f"gather/{root}/{size}"
            yield from _gathered(roster, root, label, size, nonce)
            for rank in range(roster.size):
                if roster.remote(rank, root):
                    data = octets(nonce, f"{label}/{rank}", size)
                    yield Crossing(src=root, dest=rank, cid=COLLECTIVE, tag=_SCATTER_TAG, nbytes=size, payload=data)


def _gathered(roster: Roster, root: int, label: str, size: int, nonce: str) -> Iterator[Crossing]:
    """Gather: the clients' pieces from masters if short, each rank's own if long (IMPI 4.12)."""

    def pieces(clients: Iterable[int]) -> bytes:
        return b"".join(octets(nonce, f"{label}/{r}", size) for c in clients for r in roster.of_client(c))

    if size < _XSIZE:
        sent = [(src, dest, pieces(below)) for src, dest, below in converging(roster, root)]
    else:
        remote = (r for r in range(roster.size) if roster.remote(r, root))
        sent = [(r, root, octets(nonce, f"{label}/{r}", size)) for r in remote]
    for src, dest, data in sent:
        yield Crossing(src=src, dest=dest, cid=COLLECTIVE, tag=_GATHER_TAG, nbytes=len(data), payload=data)


def _all(roster: Roster, nonce: str) -> Iterator[Crossing]:
    everybody = list(range(roster.size))
    yield from barriers(roster, nonce)
    yield from allreduce(roster, nonce)
    # Allgather is Gather to rank 0 and Bcast from there.
    yield from _gathered(roster, 0, "allgather", 80, nonce)
    yield from bcast(roster, 0, b"".join(octets(nonce, f"allgather/{r}", 80) for r in everybody))
    for src in everybody:
        for dest in everybody:
            if roster.remote(src, dest):
                data = octets(nonce, f"alltoall/{src}/{dest}", 32)
                yield Crossing(src=src, dest=dest, cid=COLLECTIVE, tag=_ALLTOALL_TAG, nbytes=32, payload=data)


def _objects(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src in range(roster.size):
        dest = (src + roster.size // 2) % roster.size
        if roster.remote(src, dest):
            for tag in (60, 61):
                token = octets(nonce, f"objects/{src}", 48)
                yield Crossing(src=src, dest=dest, cid=WORLD, tag=tag, contains=token)
            token = octets(nonce, f"objects/large/{src}", 5000)
            yield Crossing(src=src, dest=dest, cid=WORLD, tag=62, contains=token)
    for edge in bcast(roster, 0, b""):
        token = octets(nonce, "objects/0", 48)
        yield Crossing(src=edge.src, dest=edge.dest, cid=COLLECTIVE, tag=_BCAST_TAG, contains=token)


def _split(roster: Roster, nonce: str) -> list[Crossing]:
    return messages(around(roster), 7, lambda r: octets(nonce, f"dup/{r}", 24), cid=FIRST_CREATED)


COLLECTIVE_CASES: Final = (
    Case(
        "coll.rooted",
        ("4.11", "4.12", "4.14", "4.16"),
        ("collective", "long"),
        lambda roster, _rank: roster.size + 1 + 8,
        _rooted,
        core=True,
    ),
    Case("coll.all", ("4.10", "4.19", "4.21", "4.22"), ("collective",), 7, _all, core=True, smoke=True, wide=True),
    Case(
        "objects.all",
        ("3.7.1", "4.11", "4.12", "4.14", "4.16", "4.19", "4.21", "4.22"),
        ("p2p", "collective", "object"),
        10,
        _objects,
        others=(_BCAST_TAG, _GATHER_TAG, _SCATTER_TAG, _ALLTOALL_TAG, 190),
        core=True,
    ),
    Case(
        "comm.split",
        ("4.3", "4.3.1", "4.6", "4.7"),
        ("communicator",),
        5,
        _split,
        communicators=3,
        others=MAKING,
        core=True,
        wide=True,
    ),
)
