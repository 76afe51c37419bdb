"""Allgatherv (IMPI 4.20): gatherv to rank 0, then broadcast of all pieces; tags and costs of both.

[RECON] The broadcast carries the pieces in rank order as one message, without the gaps that
displacements may leave. Other implementations gather to one rank after the other instead:
:func:`allgatherv_by_gathervs`, N(N-1) messages. All clients must choose the same.
"""

from __future__ import annotations

from impi.protocol.collectives.chapter4.allgather import share
from impi.protocol.collectives.chapter4.gatherv import gatherv
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.packing import Octets, Packing
from impi.protocol.collectives.steps import Algorithm, Local


def allgatherv(
    layout: Layout,
    rank: int,
    piece: Octets,
    packing: Packing,
    *,
    maxlinear: int,
    native: bool = False,
) -> Algorithm[list[Octets]]:
    """Every process returns the pieces of all ranks, in order; ``packing`` is the same everywhere.

    ``native``: the broadcast's local phase is a :class:`impi.protocol.collectives.steps.Local`;
    under one client all is.

    Raises:
        PeerError: a piece does not have the size that ``packing`` says.
    """
    if native and layout.num_masters() == 1 and layout.size > 1:
        [everything] = yield [
            Local(
                "allgather",
                value=piece,
                like=[packing.size_of([r]) for r in range(layout.size)],
            )
        ]
        return everything  # type: ignore[no-any-return]  # a step's result has the caller's type

    # Only the long form, as gatherv has no other here, so the sizes need
    # not be known on the way in.
    pieces = yield from gatherv(layout, rank, 0, piece)

    return (
        yield from share(
            layout, rank, pieces, packing, maxlinear=maxlinear, native=native
        )
    )


def allgatherv_by_gathervs(
    layout: Layout, rank: int, piece: Octets
) -> Algorithm[list[Octets]]:
    """:func:`allgatherv` by a gatherv to every rank in turn, from rank 0; needs no sizes."""
    mine: list[Octets] = []
    for root in range(layout.size):
        pieces = yield from gatherv(layout, rank, root, piece)
        mine = mine if pieces is None else pieces

    return mine
