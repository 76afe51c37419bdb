"""Reduce_scatter (IMPI 4.17): reduce to rank 0, then scatterv from it; the tags and costs of both.

[RECON] The text is lost; that it is a composition follows from its length and from its having no tag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from impi.collectives.layout import Layout
from impi.collectives.reduce import reduce
from impi.collectives.reduction import Reduction
from impi.collectives.scatterv import scatterv
from impi.collectives.steps import Algorithm, Local

__all__ = ["reduce_scatter"]

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
        rank: who calls.
        value: what the caller contributes, all parts together; stays as it is.
        reduction: how two values become one.
        divide: a value's parts, one for each rank; only rank 0 calls it.
        maxlinear: the job's.
        native: as for :func:`reduce`.
        sizes: how many elements each rank gets, in rank order; with them and ``native`` all is a local phase under one
            client.
    """
    if native and sizes and reduction.library is not None and layout.num_masters() == 1 and layout.size > 1:
        [part] = yield [Local("reduce_scatter", value=value, like=sizes, reduction=reduction)]
        return part  # type: ignore[no-any-return]  # what a step brings is the caller's
    whole = yield from reduce(layout, rank, 0, value, reduction, maxlinear=maxlinear, native=native)
    # What reduce returns at its root is a value by contract, also where that is None.
    parts = divide(whole) if rank == 0 else None  # type: ignore[arg-type]
    return (yield from scatterv(layout, rank, 0, parts))
