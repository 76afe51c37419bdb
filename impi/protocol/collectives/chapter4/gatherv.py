"""Gatherv (IMPI 4.13).

One form for every size, the long form of gather: one message a process, straight to the root.
[RECON] The original has a short form too, but its text and its condition are lost; only the root
knows all counts, so no condition suggests itself.
"""

from __future__ import annotations

from impi.protocol.collectives.chapter4.gather import gather_direct
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.packing import Octets
from impi.protocol.collectives.steps import Algorithm
from impi.protocol.collectives.tags import GATHERV_TAG


def gatherv(
    layout: Layout, rank: int, root: int, piece: Octets
) -> Algorithm[list[Octets] | None]:
    """The root returns the pieces of all ranks, of any sizes, in rank order; the others None."""
    layout.check(root, "root")
    return (yield from gather_direct(layout, rank, root, piece, GATHERV_TAG))
