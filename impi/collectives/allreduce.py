"""Allreduce (IMPI 4.21): reduce to rank 0, then broadcast from it; the tags and costs of both.

[RECON] The text is lost; an implementation of its time does this, and what it says is recorded in our vectors.
"""

from __future__ import annotations

from typing import TypeVar

from impi.collectives.bcast import bcast
from impi.collectives.layout import Layout
from impi.collectives.reduce import reduce
from impi.collectives.reduction import Reduction
from impi.collectives.steps import Algorithm

__all__ = ["allreduce"]

V = TypeVar("V")


def allreduce(layout: Layout, rank: int, value: V, reduction: Reduction[V], *, maxlinear: int) -> Algorithm[V]:
    """Every process returns the same reduction of all values. ``value`` stays as it is; one alone returns it itself."""
    result = yield from reduce(layout, rank, 0, value, reduction, maxlinear=maxlinear)
    return (yield from bcast(layout, rank, 0, result, maxlinear=maxlinear))
