"""Allgather (IMPI 4.19): gather to rank 0, short or long, then broadcast; tags and costs of both.

[RECON] The text is lost; its length and its lack of a tag show that it is a composition.
"""

from __future__ import annotations

from impi.protocol.collectives.chapter4.bcast import bcast
from impi.protocol.collectives.chapter4.gather import gather
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.packing import Fixed, Octets, Packing
from impi.protocol.collectives.steps import Algorithm, Local


def allgather(
    layout: Layout,
    rank: int,
    piece: Octets,
    packing: Packing,
    *,
    maxlinear: int,
    short: bool,
    native: bool = False,
) -> Algorithm[list[Octets]]:
    """Every process returns the pieces of all ranks, in order; arguments as of :func:`gather`."""
    if native and isinstance(packing, Fixed) and layout.num_masters() == 1 and layout.size > 1:
        [everything] = yield [Local("allgather", value=piece)]
        return everything  # type: ignore[no-any-return]  # what a step brings is the caller's
    pieces = yield from gather(layout, rank, 0, piece, packing, maxlinear=maxlinear, short=short, native=native)
    return (yield from share(layout, rank, pieces, packing, maxlinear=maxlinear, native=native))


def share(
    layout: Layout,
    rank: int,
    pieces: list[Octets] | None,
    packing: Packing,
    *,
    maxlinear: int,
    native: bool = False,
) -> Algorithm[list[Octets]]:
    """Broadcast the pieces that rank 0 has gathered, in rank order, as one message."""
    if layout.size == 1 and pieces is not None:
        return pieces
    ranks = range(layout.size)
    joined: Octets | None = None if pieces is None else packing.join(pieces, ranks)
    like = packing.size_of(ranks) if native else None
    spread: Algorithm[Octets] = bcast(layout, rank, 0, joined, maxlinear=maxlinear, like=like)
    octets = yield from spread
    return packing.split(octets, ranks) if pieces is None else pieces
