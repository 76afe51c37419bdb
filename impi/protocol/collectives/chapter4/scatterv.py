"""Scatterv (IMPI 4.15).

One form for every size: one message for each other process, straight from the root, in rank order,
even empty ones. [RECON] The original has a short form too, but text and condition are lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from impi.protocol.collectives.chapter4.scatter import scatter_direct
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.steps import Algorithm
from impi.protocol.collectives.tags import SCATTERV_TAG

V = TypeVar("V")


def scatterv(
    layout: Layout, rank: int, root: int, pieces: Sequence[V] | None = None
) -> Algorithm[V]:
    """Every process returns its piece of the root's ``pieces``, of any size.

    Raises:
        LocalProtocolError: no such root, or the root has not one piece for each rank.
    """
    layout.check(root, "root")
    return (yield from scatter_direct(layout, rank, root, pieces, SCATTERV_TAG))
