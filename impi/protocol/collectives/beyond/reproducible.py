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

from impi.protocol.collectives import trees
from impi.protocol.collectives.chapter4.bcast import bcast
from impi.protocol.collectives.chapter4.scatterv import scatterv
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.reduction import Reduction
from impi.protocol.collectives.steps import Algorithm, Recv, Send
from impi.protocol.collectives.tags import REDUCE_TAG

V = TypeVar("V")


def reproducible_reduce(
    layout: Layout, rank: int, root: int, value: V, reduction: Reduction[V]
) -> Algorithm[V | None]:
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

    # The tree ends at rank 0 whatever the root is: another root would be
    # another tree, and other bits.
    if root != 0 and rank == 0:
        yield [Send(root, result, REDUCE_TAG)]
        result = None
    elif root != 0 and rank == root:
        [result] = yield [Recv(0, REDUCE_TAG)]

    return result if rank == root else None


def reproducible_allreduce(
    layout: Layout,
    rank: int,
    value: V,
    reduction: Reduction[V],
    *,
    maxlinear: int,
    native: bool,
) -> Algorithm[V]:
    """Every process returns the reduction of all values.

    ``maxlinear`` and ``native``: see :mod:`impi.protocol.collectives.allreduce`; they choose the
    way of the result alone.
    """
    whole = yield from reproducible_reduce(layout, rank, 0, value, reduction)
    like = value if native and reduction.library is not None else None

    return (yield from bcast(layout, rank, 0, whole, maxlinear=maxlinear, like=like))


def reproducible_reduce_scatter(
    layout: Layout,
    rank: int,
    value: V,
    reduction: Reduction[V],
    divide: Callable[[V], Sequence[V]],
) -> Algorithm[V]:
    """Every process returns its part of the reduction; see
    :mod:`impi.protocol.collectives.reduce_scatter`."""
    whole = yield from reproducible_reduce(layout, rank, 0, value, reduction)
    parts = divide(whole) if rank == 0 else None  # type: ignore[arg-type]  # at its root it is a value

    return (yield from scatterv(layout, rank, 0, parts))
