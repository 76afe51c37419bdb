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
    # Alone under one client nothing crosses, so chapter 4 does not bind it (4.2): one library call.
    if (
        native
        and isinstance(packing, Fixed)
        and layout.num_masters() == 1
        and layout.size > 1
    ):
        [everything] = yield [Local("allgather", value=piece)]
        return everything  # type: ignore[no-any-return]  # a step's result has the caller's type

    pieces = yield from gather(
        layout, rank, 0, piece, packing, maxlinear=maxlinear, short=short, native=native
    )

    return (
        yield from share(
            layout, rank, pieces, packing, maxlinear=maxlinear, native=native
        )
    )


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

    # There is no other rank to hear it, and joining would copy the piece.
    if layout.size == 1 and pieces is not None:
        return pieces

    ranks = range(layout.size)
    joined: Octets | None = None if pieces is None else packing.join(pieces, ranks)
    # A library's broadcast needs room of the right size before it begins.
    like = packing.size_of(ranks) if native else None
    spread: Algorithm[Octets] = bcast(
        layout, rank, 0, joined, maxlinear=maxlinear, like=like
    )
    octets = yield from spread

    # Rank 0 has the pieces as they came, so it need not take its own message apart.
    return packing.split(octets, ranks) if pieces is None else pieces
