"""Recorded collectives of an independent implementation, two clients of two processes.

Compared are source, destination, tag and the octets, in order. The recordings carry native
little-endian numbers, which does not matter here: values pass through an algorithm as they are. See
../vectors/README.md.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from collective_world import run

from impi.protocol.collectives import (
    Layout,
    Reduction,
    allreduce,
    barrier,
    bcast,
    reduce,
)

VECTORS = Path(__file__).parent.parent.parent / "vectors"
CLIENTS = (0, 0, 1, 1)
LAYOUT = Layout(CLIENTS)
MAXLINEAR = 4
Message = tuple[int, int, int, bytes]


def recorded(case: str) -> list[Message]:
    """(source, dest, tag, octets) of every recorded user message; long ones are cut."""
    text = (VECTORS / case / "decoded.txt").read_text()
    [pids] = re.findall(r"client1 <- server .* P_PID .*\[(.*)\]", text)
    rank_of_pid = {pid.strip(): rank for rank, pid in enumerate(pids.split(","))}
    line = re.compile(
        r"DATA .* src=\S+/(\d+) dest=\S+/(\d+) .* lsrank=(\d+) tag=(\d+) (?:.* data\[\d+\]=([0-9a-f]+))?"
    )
    messages = []
    for source, dest, lsrank, tag, octets in line.findall(text):
        assert rank_of_pid[source] == int(lsrank)
        messages.append(
            (int(lsrank), rank_of_pid[dest], int(tag), bytes.fromhex(octets))
        )
    return messages


def ours(*operations: Callable[[int], Any]) -> list[Message]:
    outcomes = [
        run([operation(r) for r in range(4)], seed)
        for seed, operation in enumerate(operations)
    ]
    return [
        (m.source, m.dest, m.tag, m.value[:16])
        for o in outcomes
        for m in o.between(CLIENTS)
    ]


def finalize(rank: int) -> Any:
    """MPI_Finalize is a barrier on MPI_COMM_WORLD (4.24)."""
    return barrier(LAYOUT, rank, maxlinear=MAXLINEAR)


def add(format_: str) -> Reduction[bytes]:
    def combine(a: bytes, b: bytes) -> bytes:
        sums = [
            x + y
            for x, y in zip(
                struct.unpack(format_, a), struct.unpack(format_, b), strict=True
            )
        ]
        return struct.pack(format_, *sums)

    return Reduction(combine)


def test_barrier() -> None:
    assert recorded("barrier") == ours(finalize, finalize)
    assert len(recorded("barrier")) == 4


def test_bcast_from_every_root() -> None:
    def from_root(root: int) -> Callable[[int], Any]:
        data = bytes((root + 7 * i) % 256 for i in range(40))
        return lambda r: bcast(
            LAYOUT, r, root, data if r == root else None, maxlinear=MAXLINEAR
        )

    assert recorded("bcast") == ours(*(from_root(root) for root in range(4)), finalize)
    assert len(recorded("bcast")) == 6


def test_reduce_to_every_root() -> None:
    def to_root(root: int) -> Callable[[int], Any]:
        return lambda r: reduce(
            LAYOUT,
            r,
            root,
            struct.pack("<3i", r, 1, 10 * r),
            add("<3i"),
            maxlinear=MAXLINEAR,
        )

    assert recorded("reduce") == ours(*(to_root(root) for root in range(4)), finalize)
    assert len(recorded("reduce")) == 6


def test_allreduce_is_reduce_and_bcast() -> None:
    def everybody(rank: int) -> Any:
        return allreduce(
            LAYOUT, rank, struct.pack("<i", rank + 1), add("<i"), maxlinear=MAXLINEAR
        )

    assert recorded("allreduce") == ours(everybody, finalize)
    assert len(recorded("allreduce")) == 4
