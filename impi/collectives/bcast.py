"""Broadcast (IMPI 4.11).

The root, whether a master or not, stands in for its client; the rotation of the tree is by its client's master
number. Cost across clients: n-1 messages, in one hop (linear) or ceil(log2 n) hops (tree); n = masters. The
same for every size.
"""

from __future__ import annotations

from typing import TypeVar

from impi.collectives.layout import Layout
from impi.collectives.steps import Algorithm, Recv, Send
from impi.collectives.tags import BCAST_TAG
from impi.collectives.teams import high_links

__all__ = ["bcast"]

V = TypeVar("V")


def bcast(layout: Layout, rank: int, root: int, value: V | None = None, *, maxlinear: int) -> Algorithm[V]:
    """Every process returns the root's ``value``; the others' own is not looked at."""
    layout.check(root, "root")
    parent, wide, near = high_links(layout, rank, root, maxlinear)
    result = value
    if parent is not None:
        [result] = yield [Recv(parent, BCAST_TAG)]
    # Other clients are further away, so they come first; nobody waits for the local phase of somebody else.
    if wide or near:
        yield [Send(child, result, BCAST_TAG) for child in (*wide, *near)]
    return result  # type: ignore[return-value]  # the root's own is a value by contract
