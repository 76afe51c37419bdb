"""Alltoall (IMPI 4.22).

One form for every size: one message for each pair, all at once: N(N-1) in one hop. [RECON] The original packs
short blocks into one message for each pair of masters, but the order inside it is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from impi.collectives.layout import Layout
from impi.collectives.steps import Algorithm, Recv, Send, Step
from impi.collectives.tags import ALLTOALL_TAG
from impi.errors import LocalProtocolError

__all__ = ["alltoall", "alltoall_direct"]

V = TypeVar("V")


def alltoall(layout: Layout, rank: int, pieces: Sequence[V]) -> Algorithm[list[V]]:
    """Every process gives one piece for each rank and returns one from each, in rank order, its own as it was given.

    Raises:
        LocalProtocolError: not one piece for each rank.
    """
    return (yield from alltoall_direct(layout, rank, pieces, ALLTOALL_TAG))


def alltoall_direct(layout: Layout, rank: int, pieces: Sequence[V], tag: int) -> Algorithm[list[V]]:
    """As :func:`alltoall`, with the tag of the operation."""
    n = layout.size
    if len(pieces) != n:
        raise LocalProtocolError(
            f"an alltoall of {n} processes needs as many pieces from rank {rank}, not {len(pieces)}"
        )
    # Each begins with its successor, so that nobody is everybody's first; only the order of a pair shows on the wire.
    sources = [(rank - i) % n for i in range(1, n)]
    steps: list[Step] = [Recv(source, tag) for source in sources]
    steps += [Send((rank + i) % n, pieces[(rank + i) % n], tag) for i in range(1, n)]
    got = (yield steps) if steps else []
    result = list(pieces)
    for source, piece in zip(sources, got, strict=True):
        result[source] = piece
    return result
