"""Scatter (IMPI 4.14).

One form for every size: one message for each other process, straight from the root, in rank order. [RECON] The
text is lost; the other candidate (one packed message a client) would be seen on the wire, so both sides must
choose this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from impi.collectives.layout import Layout
from impi.collectives.steps import Algorithm, Recv, Send
from impi.collectives.tags import SCATTER_TAG
from impi.errors import LocalProtocolError

__all__ = ["scatter", "scatter_direct"]

V = TypeVar("V")


def scatter(layout: Layout, rank: int, root: int, pieces: Sequence[V] | None = None) -> Algorithm[V]:
    """Every process returns its piece of the root's ``pieces``, one for each rank; the others' are not looked at.

    Raises:
        LocalProtocolError: no such root, or the root has not one piece for each rank.
    """
    layout.check(root, "root")
    return (yield from scatter_direct(layout, rank, root, pieces, SCATTER_TAG))


def scatter_direct(layout: Layout, rank: int, root: int, pieces: Sequence[V] | None, tag: int) -> Algorithm[V]:
    """As :func:`scatter`, with the tag of the operation."""
    if rank != root:
        [mine] = yield [Recv(root, tag)]
        return mine  # type: ignore[no-any-return]  # what a step brings is the caller's
    if pieces is None or len(pieces) != layout.size:
        held = "none" if pieces is None else str(len(pieces))
        raise LocalProtocolError(f"a scatter to {layout.size} processes needs as many pieces at the root, not {held}")
    if layout.size > 1:
        yield [Send(r, pieces[r], tag) for r in range(layout.size) if r != root]
    return pieces[root]
