"""Collective operations alone, together and in all their forms, and objects (IMPI chapter 4)."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from impi.lab.cases.case import (
    DATALEN,
    FIRST_CREATED,
    MAKING,
    WORLD,
    Case,
    Crossing,
    Launch,
    across,
    allreduce,
    around,
    barrier,
    bcast,
    by_rank,
    collective,
    elementwise,
    everyone,
    messages,
)
from impi.lab.dissect.chapter4 import exchanged_messages
from impi.lab.dissect.chapter4.collective_tags import Tag
from impi.lab.dissect.chapter4.group_messages import (
    allgather,
    allgatherv,
    direct_from_root,
    direct_to_root,
    gather,
    pairwise,
    reduce,
)
from impi.lab.nodes.roster import Roster
from impi.lab.programs.payload import external_doubles, external_ints, numbers, octets

_LONG: Final = 300_000
_ADDED: Final = elementwise("i", operator.add)
_LENGTHS: Final = (80, 5000, 300_000)
_COUNTS: Final = (8, 5000, 90_000)
_TWO: Final = 2
_ONE_MORE: Final = DATALEN + 1  # octets of the shortest long message
_SIZES: Final = (1024, 4096, 16384, 65536, 131072)


def _rooted(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for root in range(roster.size):
        yield from bcast_from(roster, root, nonce)
        yield from reduce_to(roster, root, nonce)

    for root in (0, roster.size - 1):
        for size in (64, 2048):
            parts = _parts(roster, nonce, f"gather/{root}/{size}", size)
            yield from collective(gather(everyone(roster), root, parts))
            yield from collective(
                direct_from_root(everyone(roster), Tag.SCATTER, root, parts)
            )


def _parts(roster: Roster, nonce: str, label: str, size: int) -> list[bytes]:
    return [octets(nonce, f"{label}/{rank}", size) for rank in range(roster.size)]


def _all(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from barriers(roster, nonce)
    yield from allreduces(roster, nonce)
    yield from collective(
        allgather(everyone(roster), _parts(roster, nonce, "allgather", 80))
    )

    def block(src: int, dest: int) -> bytes:
        return octets(nonce, f"alltoall/{src}/{dest}", 32)

    yield from collective(pairwise(everyone(roster), Tag.ALLTOALL, block))


def _objects(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src in range(roster.size):
        dest = (src + roster.size // 2) % roster.size
        if roster.remote(src, dest):
            for tag in (60, 61):
                token = octets(nonce, f"objects/{src}", 48)
                yield Crossing(src=src, dest=dest, cid=WORLD, tag=tag, contains=token)

            token = octets(nonce, f"objects/large/{src}", 5000)
            yield Crossing(src=src, dest=dest, cid=WORLD, tag=62, contains=token)

    for sent in bcast(roster, 0, None):
        yield replace(sent, contains=octets(nonce, "objects/0", 48))


def _split(roster: Roster, nonce: str) -> list[Crossing]:
    return messages(around(roster), 7, by_rank(nonce, "dup/*", 24), cid=FIRST_CREATED)


def barriers(roster: Roster, _nonce: str) -> Iterator[Crossing]:
    """Barriers with messages between them."""
    yield from barrier(roster, count=3)
    for number in [external_ints([i]) for i in range(3)]:
        yield from messages(around(roster), 70, partial(_same, number), unit=4)


def _same(data: bytes, _rank: int) -> bytes:
    return data


def bcast_from(roster: Roster, root: int, nonce: str) -> Iterator[Crossing]:
    """Return the messages of a broadcast of 40 doubles."""
    yield from bcast(
        roster, root, external_doubles(numbers(nonce, f"bcast/{root}", 40)), unit=8
    )


def reduce_to(roster: Roster, root: int, nonce: str) -> Iterator[Crossing]:
    """Return the messages of a sum of 12 integers."""
    parts = [
        external_ints(numbers(nonce, f"reduce/{r}", 12)) for r in range(roster.size)
    ]
    yield from collective(
        reduce(everyone(roster), root, parts, elementwise("i", operator.add)),
        units=(4,),
    )


def _bcast(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for root in range(roster.size):
        yield from bcast_from(roster, root, nonce)


def _reduce(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for root in range(roster.size):
        yield from reduce_to(roster, root, nonce)


def allreduces(roster: Roster, nonce: str) -> Iterator[Crossing]:
    """A sum and a maximum: Reduce to rank 0 and Bcast from there (IMPI 4.21)."""
    rows = [numbers(nonce, f"allreduce/{r}", 8) for r in range(roster.size)]
    yield from allreduce(
        roster, [external_ints(row) for row in rows], elementwise("i", operator.add)
    )
    yield from allreduce(
        roster, [external_doubles(row) for row in rows], elementwise("d", max), unit=8
    )


def _bcast_long(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from bcast(roster, roster.size - 1, octets(nonce, "long/bcast", _ONE_MORE))


def _ints(roster: Roster, nonce: str, label: str, count: int) -> list[bytes]:
    return [
        external_ints(numbers(nonce, f"{label}/{rank}", count))
        for rank in range(roster.size)
    ]


def _doubles(roster: Roster, nonce: str, label: str, count: int) -> list[bytes]:
    return [
        external_doubles(numbers(nonce, f"{label}/{rank}", count))
        for rank in range(roster.size)
    ]


def _allreduced(
    roster: Roster, nonce: str, label: str, count: int
) -> Iterator[Crossing]:
    """A sum of ints: Reduce to rank 0 and Bcast from there (IMPI 4.21)."""
    yield from allreduce(roster, _ints(roster, nonce, label, count), _ADDED)


def _long(roster: Roster, nonce: str) -> Iterator[Crossing]:
    yield from bcast(roster, roster.size - 1, octets(nonce, "long/bcast", _LONG))
    parts = [octets(nonce, f"long/gather/{rank}", _LONG) for rank in range(roster.size)]
    yield from collective(gather(everyone(roster), 0, parts))
    sums = _doubles(roster, nonce, "long/sum", _LONG // 8)
    yield from allreduce(roster, sums, elementwise("d", operator.add), unit=8)


def _vectors(roster: Roster, nonce: str) -> Iterator[Crossing]:
    group = everyone(roster)

    every = [octets(nonce, f"vectors/{r}", 3 * r + 1) for r in range(roster.size)]
    for root in (0, roster.size - 1):
        yield from collective(direct_to_root(group, Tag.GATHERV, root, every))
        yield from collective(direct_from_root(group, Tag.SCATTERV, root, every))

    yield from collective(allgatherv(group, every))


def _alltoallv(roster: Roster, nonce: str) -> Iterator[Crossing]:
    def block(src: int, dest: int) -> bytes:
        return octets(nonce, f"alltoallv/{src}/{dest}", 8 * (src + dest))

    yield from collective(pairwise(everyone(roster), Tag.ALLTOALLV, block), count=2)


def _nonblocking(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for src, dest in across(roster):
        data = octets(nonce, f"nonblocking/note/{src}", 20)
        yield Crossing(src=src, dest=dest, cid=WORLD, tag=72, nbytes=20, payload=data)

    yield from bcast(
        roster, 0, external_ints(numbers(nonce, "nonblocking/bcast", 15)), unit=4
    )
    yield from _allreduced(roster, nonce, "nonblocking", 9)
    yield from bcast(
        roster, 0, b"".join(_ints(roster, nonce, "nonblocking", 9)), unit=4
    )
    yield from barrier(roster)


def _persistent(roster: Roster, nonce: str) -> Iterator[Crossing]:
    for turn in range(3):
        yield from _allreduced(roster, nonce, f"persistent/{turn}", 7)
        yield from bcast(
            roster,
            roster.size - 1,
            external_ints(numbers(nonce, f"persistent/bcast/{turn}", 11)),
            unit=4,
        )


def _in_place(roster: Roster, nonce: str) -> Iterator[Crossing]:
    parts = _ints(roster, nonce, "in-place", 4)
    yield from collective(reduce(everyone(roster), 0, parts, _ADDED), units=(4,))
    yield from bcast(roster, 0, b"".join(parts), unit=4)


def _sized(roster: Roster, nonce: str) -> Iterator[Crossing]:
    group = everyone(roster)
    for n in _SIZES:
        yield from bcast(roster, 0, octets(nonce, f"sizes/bcast/{n}", n))
        parts = [
            octets(nonce, f"sizes/gather/{n}/{rank}", n) for rank in range(roster.size)
        ]
        yield from collective(gather(group, 0, parts))
        yield from collective(direct_from_root(group, Tag.SCATTER, 0, parts))
        sums = _doubles(roster, nonce, f"sizes/sum/{n}", n // 8)
        yield from allreduce(roster, sums, elementwise("d", operator.add), unit=8)
        yield from collective(pairwise(group, Tag.ALLTOALL, partial(_block, nonce, n)))


def _block(nonce: str, n: int, src: int, dest: int) -> bytes:
    return octets(nonce, f"sizes/alltoall/{n}/{src}/{dest}", n)


def _exchanged(roster: Roster, nonce: str) -> Iterator[Crossing]:
    group = everyone(roster)

    yield from collective(exchanged_messages.barrier(group), count=3)
    for number in [external_ints([i]) for i in range(3)]:
        yield from messages(around(roster), 70, partial(_same, number), unit=4)

    for length in _LENGTHS:
        yield from collective(
            exchanged_messages.allgather(
                group, _parts(roster, nonce, f"exchange/{length}", length)
            )
        )

    if roster.nclients == _TWO:  # more clients reduce by elimination, in halves
        for count in _COUNTS:
            parts = _ints(roster, nonce, f"exchange/sum/{count}", count)
            yield from collective(
                exchanged_messages.allreduce(group, parts, _ADDED), units=(4,), count=2
            )


COLLECTIVE_CASES: Final = (
    Case(
        "coll.rooted",
        ("4.11", "4.12", "4.14", "4.16"),
        ("collective", "long"),
        lambda roster, _rank: roster.size + 1 + 8,
        _rooted,
        groups=("core", "trio"),
    ),
    Case(
        "coll.all",
        ("4.10", "4.19", "4.21", "4.22"),
        ("collective",),
        7,
        _all,
        groups=("smoke", "core", "wide"),
    ),
    Case(
        "objects.all",
        ("3.7.1", "4.11", "4.12", "4.14", "4.16", "4.19", "4.21", "4.22"),
        ("p2p", "collective", "object"),
        10,
        _objects,
        others=(Tag.BCAST, Tag.GATHER, Tag.SCATTER, Tag.ALLTOALL, Tag.REDUCE),
        groups=("core",),
    ),
    Case(
        "comm.split",
        ("4.3", "4.3.1", "4.6", "4.7"),
        ("communicator",),
        5,
        _split,
        communicators=3,
        others=MAKING,
        groups=("core", "wide"),
    ),
    Case("coll.barrier", ("4.10",), ("collective",), 3, barriers),
    Case(
        "coll.bcast",
        ("4.11",),
        ("collective",),
        lambda roster, _rank: roster.size,
        _bcast,
    ),
    Case(
        "coll.bcast-long",
        ("3.7.2", "4.11"),
        ("collective", "long"),
        1,
        _bcast_long,
        params={"size": _ONE_MORE},
    ),
    Case("coll.reduce", ("4.16",), ("collective", "reduction"), 1, _reduce),
    Case("coll.allreduce", ("4.21",), ("collective", "reduction"), 2, allreduces),
    Case(
        "coll.sizes",
        ("4.11", "4.12", "4.14", "4.16", "4.21", "4.22"),
        ("collective", "long"),
        5 * len(_SIZES),
        _sized,
        params={"sizes": list(_SIZES)},
        groups=("core", "nodes"),
    ),
    Case(
        "coll.long",
        ("3.7.2", "4.11", "4.12", "4.16"),
        ("collective", "long"),
        3,
        _long,
        params={"size": _LONG},
        groups=("nodes",),
    ),
    Case(
        "coll.vectors",
        ("4.13", "4.15", "4.20"),
        ("collective",),
        5,
        _vectors,
        groups=("nodes",),
    ),
    Case("coll.alltoallv", ("4.23",), ("collective",), 2, _alltoallv),
    Case(
        "coll.exchanges",
        (),
        ("collective", "long"),
        3 + len(_LENGTHS) + 2 * len(_COUNTS),
        _exchanged,
        params={"lengths": list(_LENGTHS), "counts": list(_COUNTS)},
        others=(Tag.REDUCE,),
        # The collectives on which clients of ours agree
        launch=Launch(options=("--external32",)),
        groups=("core", "trio"),
    ),
    Case(
        "coll.nonblocking",
        ("4.10", "4.11", "4.19", "4.21"),
        ("collective", "nonblocking"),
        4,
        _nonblocking,
        others=(Tag.GATHER,),
    ),
    Case(
        "coll.persistent",
        ("4.11", "4.21"),
        ("collective", "nonblocking"),
        6,
        _persistent,
    ),
    Case(
        "coll.in-place",
        ("4.12", "4.14", "4.16", "4.18", "4.19", "4.22"),
        ("collective",),
        6,
        _in_place,
        others=(Tag.GATHER, Tag.SCATTER, Tag.ALLTOALL, Tag.SCAN),
    ),
)
