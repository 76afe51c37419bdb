"""Collectives of an intercommunicator (MPI 4.1, 6.2.3). IMPI 0.0 has none, so the form is ours.

One form for every operation and size: straight between the two groups, one hop, at most one message
for each pair of processes. Every rank in a step is one of the *remote* group. The tags are those of
the same operations in one group.

``root`` is as in MPI: ROOT at the root itself, PROC_NULL in the rest of its group, and the root's
rank in the other group. Also here: the exchanges of IMPI 4.5, 4.6 and 4.9 between the groups when
such a communicator is freed, duplicated or merged.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from impi.protocol.collectives.reduction import Reduction
from impi.protocol.collectives.steps import Algorithm, Recv, Send, Step
from impi.protocol.collectives.tags import (
    BCAST_TAG,
    COMM_FREE_TAG,
    DUP_TAG,
    GATHER_TAG,
    MERGE_TAG,
    REDUCE_TAG,
    SCATTER_TAG,
)
from impi.protocol.semantics.constants import PROC_NULL, ROOT

V = TypeVar("V")

_UINT8 = struct.Struct(">Q")
_TWO_UINT8 = struct.Struct(">QQ")


def exchange(size: int, pieces: Sequence[V], tag: int) -> Algorithm[list[V]]:
    """Exchange one piece with each of the ``size`` processes of the remote group."""
    # Receives and sends in one list: both groups do the same, and neither may wait for the other.
    steps: list[Step] = [Recv(r, tag) for r in range(size)]
    return (yield [*steps, *(Send(r, pieces[r], tag) for r in range(size))])


def bcast(size: int, root: int, value: V | None = None) -> Algorithm[V | None]:
    """Processes of the other group return the root's value, those of its own their argument."""
    if root == ROOT:
        yield [Send(r, value, BCAST_TAG) for r in range(size)]
    elif root != PROC_NULL:
        [value] = yield [Recv(root, BCAST_TAG)]

    return value


def gather(
    size: int, root: int, piece: V, tag: int = GATHER_TAG
) -> Algorithm[list[V] | None]:
    """The root returns the pieces of the other group, in rank order, all others None."""
    if root == ROOT:
        return (yield [Recv(r, tag) for r in range(size)])

    if root != PROC_NULL:
        yield [Send(root, piece, tag)]

    return None


def scatter(
    size: int, root: int, pieces: Sequence[V] | None, tag: int = SCATTER_TAG
) -> Algorithm[V | None]:
    """Every process of the other group returns its piece of the root's, those of its own None."""
    if root == ROOT and pieces is not None:
        yield [Send(r, pieces[r], tag) for r in range(size)]
    elif root >= 0:
        return (yield [Recv(root, tag)])[0]  # type: ignore[no-any-return]

    return None


def reduce(
    size: int, root: int, value: V, reduction: Reduction[V]
) -> Algorithm[V | None]:
    """The root returns the reduction of the other group's values, by rank; all others None."""
    values = yield from gather(size, root, value, REDUCE_TAG)
    return None if values is None else _combined(values, reduction)


def allreduce(size: int, value: V, reduction: Reduction[V]) -> Algorithm[V]:
    """Every process returns the reduction of the values of the other group, in rank order."""
    return _combined((yield from exchange(size, [value] * size, REDUCE_TAG)), reduction)


def reduce_scatter(
    rank: int,
    size: int,
    value: V,
    reduction: Reduction[V],
    divide: Callable[[V], Sequence[V]],
) -> Algorithm[V]:
    """Every process returns its part of the reduction of the values of the other group.

    The whole vector goes everywhere: each group divides it in its own way, unknown to the other.
    """
    return divide((yield from allreduce(size, value, reduction)))[rank]


def announce(rank: int, size: int, value: Any, tag: int) -> Algorithm[Any]:
    """Every process returns the remote rank 0's value; only rank 0's own argument is used."""
    steps: list[Step] = [Recv(0, tag)]
    if rank == 0:
        steps += [Send(r, value, tag) for r in range(size)]

    return (yield steps)[0]


def free_barrier(rank: int, size: int) -> Algorithm[None]:
    """IMPI 4.5: fan in to the other group's rank 0, the two meet, fan out."""
    yield from _over_leaders(rank, size, b"", lambda mine, other: mine, COMM_FREE_TAG)


def leaders_maximum(rank: int, size: int, value: bytes) -> Algorithm[bytes]:
    """The largest value of both groups, compared as octets of one length (IMPI 4.6)."""
    return (
        yield from _over_leaders(
            rank,
            size,
            value,
            lambda mine, other: max(bytes(mine), bytes(other)),
            DUP_TAG,
        )
    )


def merge(
    rank: int, size: int, largest: int, high: bool
) -> Algorithm[tuple[int, bool]]:
    """Return the largest context id of both groups, and the other group's ``high`` (IMPI 4.9)."""

    if rank != 0:
        yield [Send(0, _UINT8.pack(largest), MERGE_TAG)]
        # IMPI 4.9: the leader of the other group tells the maximum of all, and its group's `high`.
        maximum, their_high = _TWO_UINT8.unpack((yield [Recv(0, MERGE_TAG)])[0])
        return maximum, bool(their_high)

    if size > 1:
        for other in (yield [Recv(r, MERGE_TAG) for r in range(1, size)]):
            largest = max(largest, _UINT8.unpack(other)[0])

    [other] = yield [
        Recv(0, MERGE_TAG),
        Send(0, _TWO_UINT8.pack(largest, high), MERGE_TAG),
    ]
    maximum, their_high = _TWO_UINT8.unpack(other)

    largest = max(largest, maximum)
    if size > 1:
        yield [
            Send(r, _TWO_UINT8.pack(largest, high), MERGE_TAG) for r in range(1, size)
        ]

    return largest, bool(their_high)


def _over_leaders(
    rank: int, size: int, value: bytes, join: Callable[[bytes, bytes], bytes], tag: int
) -> Algorithm[bytes]:
    if rank != 0:
        yield [Send(0, value, tag)]
        return bytes((yield [Recv(0, tag)])[0])

    if size > 1:
        for other in (yield [Recv(r, tag) for r in range(1, size)]):
            value = join(value, other)

    # IMPI 4.5, 4.6: a leader knows its own value, and those of the other group but its leader's. So
    # the two leaders together know all.
    [other] = yield [Recv(0, tag), Send(0, value, tag)]

    value = join(value, other)
    if size > 1:
        yield [Send(r, value, tag) for r in range(1, size)]

    return value


def _combined(values: list[V], reduction: Reduction[V]) -> V:
    # x0 op (x1 op (... op xN-1)), as in one group; received values may be changed in place.
    result = values[-1]
    for value in reversed(values[:-1]):
        result = reduction.combine(value, result)

    return result
