"""Allreduce (IMPI 4.21): reduce to rank 0, then broadcast from it; the tags and costs of both.

[RECON] The text is lost; an implementation of its time does this, as our recorded vectors show.
"""

from __future__ import annotations

from typing import TypeVar

from impi.protocol.collectives.chapter4.bcast import bcast
from impi.protocol.collectives.chapter4.reduce import reduce
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.reduction import Reduction
from impi.protocol.collectives.steps import Algorithm, Local

V = TypeVar("V")


def allreduce(
    layout: Layout,
    rank: int,
    value: V,
    reduction: Reduction[V],
    *,
    maxlinear: int,
    native: bool = False,
) -> Algorithm[V]:
    """Every process returns the same reduction of all values; ``value`` stays unchanged.

    A single process returns ``value`` itself. ``native``: as for :func:`reduce`.
    """

    native = native and reduction.library is not None
    if native and layout.num_masters() == 1 and layout.size > 1:
        [whole] = yield [Local("allreduce", value=value, reduction=reduction)]
        return whole  # type: ignore[no-any-return]  # a step's result has the caller's type

    result = yield from reduce(
        layout, rank, 0, value, reduction, maxlinear=maxlinear, native=native
    )

    return (
        yield from bcast(
            layout, rank, 0, result, maxlinear=maxlinear, like=value if native else None
        )
    )
