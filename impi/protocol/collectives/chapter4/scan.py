"""Scan (IMPI 4.18) and exscan.

A chain over all ranks, without masters, commutative or not: N-1 messages in N-1 hops. Exscan is
ours: the same chain one place on, with the tag of scan.
"""

from __future__ import annotations

from typing import Any, TypeVar

from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.reduction import Reduction
from impi.protocol.collectives.steps import Algorithm, Recv, Send
from impi.protocol.collectives.tags import SCAN_TAG

V = TypeVar("V")


def scan(layout: Layout, rank: int, value: V, reduction: Reduction[V]) -> Algorithm[V]:
    """Rank r returns the reduction of the values of ranks 0 .. r. Rank 0 returns its own itself."""

    result = value
    if rank > 0:
        [before] = yield [Recv(rank - 1, SCAN_TAG)]
        # The lower ranks are the first operand, which matters where the operation does not commute.
        # LAM/MPI swaps the two for those that do.
        result = reduction.combine(before, reduction.copy(value))

    if rank < layout.size - 1:
        yield [Send(rank + 1, result, SCAN_TAG)]

    return result


def exscan(
    layout: Layout, rank: int, value: V, reduction: Reduction[V]
) -> Algorithm[V | None]:
    """Rank r returns the reduction of ranks 0 .. r-1, rank 0 None. ``value`` stays unchanged."""

    before: Any = None

    through = value
    if rank > 0:
        [before] = yield [Recv(rank - 1, SCAN_TAG)]

    if rank < layout.size - 1:
        if rank > 0:
            # Two values are in hand: `before` is the own result, `through` is
            # for the next rank alone.
            through = reduction.combine(before, reduction.copy(value))

        yield [Send(rank + 1, through, SCAN_TAG)]

    return before  # type: ignore[no-any-return]  # a step's result has the caller's type
