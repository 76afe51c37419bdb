"""Reduce_scatter (IMPI 4.17): reduce to rank 0, then scatterv from it; the tags and costs of both.

[RECON] The text is lost; its length and its lack of a tag show that it is a composition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from impi.protocol.collectives.chapter4.reduce import reduce
from impi.protocol.collectives.chapter4.scatterv import scatterv
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.reduction import Reduction
from impi.protocol.collectives.steps import Algorithm, Local

V = TypeVar("V")


def reduce_scatter(
    layout: Layout,
    rank: int,
    value: V,
    reduction: Reduction[V],
    divide: Callable[[V], Sequence[V]],
    *,
    maxlinear: int,
    native: bool = False,
    sizes: Sequence[int] = (),
) -> Algorithm[V]:
    """Every process returns its part of the reduction of all values.

    Args:
        layout: of the communicator.
        rank: the caller's.
        value: the caller's contribution, all parts together; stays unchanged.
        reduction: the operation.
        divide: makes a value's parts, one for each rank; only rank 0 calls it.
        maxlinear: the job's.
        native: as for :func:`reduce`.
        sizes: elements of each rank's part; with ``native`` one client makes it a local phase.
    """

    if (
        native
        and sizes
        and reduction.library is not None
        and layout.num_masters() == 1
        and layout.size > 1
    ):
        [part] = yield [
            Local("reduce_scatter", value=value, like=sizes, reduction=reduction)
        ]
        return part  # type: ignore[no-any-return]  # a step's result has the caller's type

    # Rank 0 holds the whole vector for a moment, though each process wants a part: with no tag of
    # its own (4.25), the operation can only be made of others.
    whole = yield from reduce(
        layout, rank, 0, value, reduction, maxlinear=maxlinear, native=native
    )
    # By contract reduce returns a value at its root, which may be None.
    parts = divide(whole) if rank == 0 else None  # type: ignore[arg-type]

    return (yield from scatterv(layout, rank, 0, parts))
