"""Gatherv (IMPI 4.13).

One form for every size, the long form of gather: one message a process, straight to the root.
[RECON] The original has a short form too, but its text and its condition are lost; only the root
knows all counts, so no condition suggests itself.
"""

from __future__ import annotations

from impi.collectives.gather import gather_direct
from impi.collectives.layout import Layout
from impi.collectives.packing import Octets
from impi.collectives.steps import Algorithm
from impi.collectives.tags import GATHERV_TAG


def gatherv(layout: Layout, rank: int, root: int, piece: Octets) -> Algorithm[list[Octets] | None]:
    """The root returns the pieces of all ranks, of any sizes, in rank order; the others None."""
    layout.check(root, "root")
    return (yield from gather_direct(layout, rank, root, piece, GATHERV_TAG))
