"""Scatter (IMPI 4.14).

One form for every size: one message for each other process, straight from the root, in rank order.
[RECON] The text is lost. The other candidate is :func:`scatter_by_masters`, one packed message a
client: n-1 messages across clients in one hop, n = masters. The wire differs, so all clients must
choose the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from impi.base.errors import LocalProtocolError
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.packing import Octets, Packing
from impi.protocol.collectives.steps import Algorithm, Local, Recv, Send
from impi.protocol.collectives.tags import SCATTER_TAG
from impi.protocol.collectives.teams import across

V = TypeVar("V")


def scatter(
    layout: Layout,
    rank: int,
    root: int,
    pieces: Sequence[V] | None = None,
    *,
    like: int | None = None,
) -> Algorithm[V]:
    """Every process returns its piece of the root's ``pieces``; others' ``pieces`` are not read.

    ``like``: octets of a piece, if all know them; under one client the phase is :class:`Local`.

    Raises:
        LocalProtocolError: no such root, or the root has not one piece for each rank.
    """
    layout.check(root, "root")
    if like is not None and layout.num_masters() == 1 and layout.size > 1:
        [mine] = yield [
            Local(
                "scatter",
                root,
                _one_each(layout, pieces) if rank == root else None,
                like,
            )
        ]
        return mine  # type: ignore[no-any-return]  # a step's result has the caller's type

    return (yield from scatter_direct(layout, rank, root, pieces, SCATTER_TAG))


def scatter_direct(
    layout: Layout, rank: int, root: int, pieces: Sequence[V] | None, tag: int
) -> Algorithm[V]:
    """:func:`scatter` with any tag."""

    if rank != root:
        [mine] = yield [Recv(root, tag, whole=True)]
        return mine  # type: ignore[no-any-return]  # a step's result has the caller's type

    pieces = _one_each(layout, pieces)
    if layout.size > 1:
        yield [Send(r, pieces[r], tag) for r in range(layout.size) if r != root]

    return pieces[root]


def scatter_by_masters(
    layout: Layout,
    rank: int,
    root: int,
    pieces: Sequence[Octets] | None,
    packing: Packing,
) -> Algorithm[Octets]:
    """:func:`scatter` by one message of pieces to each master, by rank, which hands them out.

    Args:
        layout: of the communicator.
        rank: the caller's.
        root: the owner of the pieces.
        pieces: at the root one for each rank.
        packing: the form of joined pieces; the same everywhere.

    Raises:
        LocalProtocolError: no such root, or the root has not one piece for each rank.
        PeerError: a piece does not have the size that ``packing`` says.
    """

    layout.check(root, "root")

    near = layout.locals_to_rank(rank)
    if rank == root:
        given = _one_each(layout, pieces)
        # The root stands in for its own client, whose procs get single pieces below.
        masters = [m for m in across(layout, root, layout.size).members if m != root]
        steps = [
            Send(m, _joined(given, layout.locals_to_rank(m), packing), SCATTER_TAG)
            for m in masters
        ]

        # Behind those to other clients, which are further away.
        steps += [Send(r, given[r], SCATTER_TAG) for r in near if r != root]
        if steps:
            yield [*steps]

        return given[root]

    # One piece from somebody of the own client: from the root, or else from the master.
    if layout.are_local(rank, root) or not layout.is_master(rank):
        [mine] = yield [
            Recv(
                root
                if layout.are_local(rank, root)
                else layout.local_master_rank(rank),
                SCATTER_TAG,
            )
        ]
        return mine  # type: ignore[no-any-return]  # a step's result has the caller's type

    [octets] = yield [Recv(root, SCATTER_TAG)]

    # The master is the lowest of its client, so the first piece is its own.
    mine, *others = packing.split(octets, near)
    if others:
        yield [
            Send(r, piece, SCATTER_TAG)
            for r, piece in zip(near[1:], others, strict=True)
        ]

    return mine


def _joined(pieces: Sequence[Octets], ranks: Sequence[int], packing: Packing) -> Octets:
    return packing.join([pieces[r] for r in ranks], ranks)


def _one_each(layout: Layout, pieces: Sequence[V] | None) -> Sequence[V]:
    if pieces is None or len(pieces) != layout.size:
        held = "none" if pieces is None else str(len(pieces))
        raise LocalProtocolError(
            f"a scatter to {layout.size} processes needs as many pieces at the root, not {held}"
        )

    return pieces
