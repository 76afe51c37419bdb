"""Reductions whose bits depend on nothing but the values and their ranks.

Values are combined in rank order by one tree: the low-bit tree over *all* ranks, in which rank v
has the values of v .. v+2^k-1. Clients, local phases and libraries' reductions play no part. So the
same program on the same number of processes has the same bits under any layout, vendor and table of
decisions, if the operation itself rounds alike everywhere. The operation need not commute.

Cost: ceil(log2 N) hops, any of which may cross between clients, and one more to a root other than
rank 0; N-1 messages of the whole value. As many cross as the tree has edges between clients: at
best few more than there are clients (neighbouring ranks), at worst all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from impi.collectives import trees
from impi.collectives.layout import Layout
from impi.collectives.reduction import Reduction
from impi.collectives.scatterv import scatterv
from impi.collectives.steps import Algorithm, Recv, Send
from impi.collectives.tags import REDUCE_TAG

V = TypeVar("V")


def reproducible_reduce(layout: Layout, rank: int, root: int, value: V, reduction: Reduction[V]) -> Algorithm[V | None]:
    """The root returns the reduction of all values, the others None. ``value`` stays as it is.

    Raises:
        LocalProtocolError: no such root.
    """
    layout.check(root, "root")
    result: Any = value
    for child in trees.low_children(rank, layout.size):
        # One after the other: the order decides the bits, and a long vector is held once.
        [right] = yield [Recv(child, REDUCE_TAG)]
        result = reduction.combine(result, right)
    parent = trees.low_parent(rank)
    if parent is not None:
        yield [Send(parent, result, REDUCE_TAG)]
        result = None
    if root != 0 and rank == 0:
        yield [Send(root, result, REDUCE_TAG)]
        result = None
    elif root != 0 and rank == root:
        [result] = yield [Recv(0, REDUCE_TAG)]
    return result if rank == root else None


def reproducible_reduce_scatter(
    layout: Layout, rank: int, value: V, reduction: Reduction[V], divide: Callable[[V], Sequence[V]]
) -> Algorithm[V]:
    """Every process returns its part of the reduction; see :mod:`.reduce_scatter`."""
    whole = yield from reproducible_reduce(layout, rank, 0, value, reduction)
    parts = divide(whole) if rank == 0 else None  # type: ignore[arg-type]  # at its root it is a value
    return (yield from scatterv(layout, rank, 0, parts))
