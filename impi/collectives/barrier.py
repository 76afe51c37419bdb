"""Barrier (IMPI 4.10).

Cost across clients: linear 2(n-1) messages in two hops; tree 2(n-1) messages in 2 ceil(log2 n) hops; all of 0
octets, n = masters.
"""

from __future__ import annotations

from impi.collectives.layout import Layout
from impi.collectives.steps import Algorithm, Recv, Send
from impi.collectives.tags import BARRIER_TAG
from impi.collectives.teams import high_links

__all__ = ["barrier"]

_NOTHING = b""


def barrier(layout: Layout, rank: int, *, maxlinear: int) -> Algorithm[None]:
    """Return when every process of the communicator has come here."""
    parent, wide, near = high_links(layout, rank, 0, maxlinear)
    # IMPI 4.10: a linear root listens to the masters in ascending order, a tree to the far children first.
    children = (*near, *(wide if layout.num_masters() <= maxlinear else reversed(wide)))
    if children:
        yield [Recv(child, BARRIER_TAG) for child in children]
    if parent is not None:
        yield [Send(parent, _NOTHING, BARRIER_TAG), Recv(parent, BARRIER_TAG)]
    if children:
        yield [Send(child, _NOTHING, BARRIER_TAG) for child in (*wide, *near)]
