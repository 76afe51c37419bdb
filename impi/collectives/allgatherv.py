"""Allgatherv (IMPI 4.20): gatherv to rank 0, then broadcast of all pieces from it; the tags and costs of both.

[RECON] The broadcast carries the pieces in rank order as one message, without the gaps that displacements may leave.
"""

from __future__ import annotations

from impi.collectives.allgather import share
from impi.collectives.gatherv import gatherv
from impi.collectives.layout import Layout
from impi.collectives.packing import Octets, Packing
from impi.collectives.steps import Algorithm

__all__ = ["allgatherv"]


def allgatherv(
    layout: Layout, rank: int, piece: Octets, packing: Packing, *, maxlinear: int
) -> Algorithm[list[Octets]]:
    """Every process returns the pieces of all ranks, in rank order; ``packing`` is the same everywhere.

    Raises:
        PeerError: a piece has not the size that ``packing`` says.
    """
    pieces = yield from gatherv(layout, rank, 0, piece)
    return (yield from share(layout, rank, pieces, packing, maxlinear=maxlinear))
