"""Gather (IMPI 4.12).

*Long*: every process sends its piece straight to the root, one message each. *Short*: each client's
pieces travel as one message, over a star or the low-bit tree: n-1 messages across clients in one or
ceil(log2 n) hops; n = masters.

[RECON] The text of the short form is lost; the order inside a message is ours: the clients' pieces
by master number, from the sender's own onwards and round, those of one client by rank.
"""

from __future__ import annotations

from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.packing import Fixed, Octets, Packing, concatenate
from impi.protocol.collectives.steps import Algorithm, Local, Recv, Send
from impi.protocol.collectives.tags import GATHER_TAG
from impi.protocol.collectives.teams import Team, across, within


def is_short(nbytes: int, xsize: int) -> bool:
    """Whether ``nbytes`` packed octets a process take the short form (IMPI 2.3.5, 4.12)."""
    return nbytes < xsize


def gather(
    layout: Layout,
    rank: int,
    root: int,
    piece: Octets,
    packing: Packing,
    *,
    maxlinear: int,
    short: bool,
    native: bool = False,
) -> Algorithm[list[Octets] | None]:
    """The root returns the pieces of all ranks, in rank order, its own unchanged; the others None.

    Args:
        layout: of the communicator.
        rank: the caller's.
        root: the receiver of the pieces.
        piece: the caller's contribution.
        packing: the form of joined pieces, the same everywhere; unused by the long form.
        maxlinear: the job's.
        short: :func:`is_short` of the size of one piece; must be the same everywhere.
        native: whether local phases are :class:`Local`, if all pieces have one size.

    Raises:
        LocalProtocolError: no such root.
        PeerError: a piece does not have the size that ``packing`` says.
    """

    layout.check(root, "root")

    native = native and isinstance(packing, Fixed)
    if native and layout.num_masters() == 1 and layout.size > 1:
        [pieces] = yield [Local("gather", root, piece)]
        return pieces  # type: ignore[no-any-return]  # a step's result has the caller's type

    if not short:
        return (yield from gather_direct(layout, rank, root, piece, GATHER_TAG))

    return (
        yield from _gather_short(
            layout, rank, root, piece, packing, maxlinear=maxlinear, native=native
        )
    )


def gather_direct(
    layout: Layout, rank: int, root: int, piece: Octets, tag: int
) -> Algorithm[list[Octets] | None]:
    """Every process sends its piece straight to ``root``, which returns them in rank order."""

    if rank != root:
        yield [Send(root, piece, tag)]
        return None

    # The own piece does not travel. All receives at once: the senders do not wait for each other.
    others = [r for r in range(layout.size) if r != root]
    got = (yield [Recv(r, tag) for r in others]) if others else []

    return [*got[:root], piece, *got[root:]]


def _gather_short(
    layout: Layout,
    rank: int,
    root: int,
    piece: Octets,
    packing: Packing,
    *,
    maxlinear: int,
    native: bool,
) -> Algorithm[list[Octets] | None]:
    near = within(layout, rank, root)

    # Packed already here: joined pieces can be joined again by appending (the law of packings).
    own = packing.join([piece], [rank])
    if native and layout.has_company(rank):
        indexes: tuple[tuple[int, ...], ...] = tuple(
            (i,) for i in range(len(near.members))
        )
        [blocks] = yield [Local("gather", near.members[near.first], own)]
    else:
        indexes = near.blocks
        blocks = yield from _collect(near, rank, own)

    # Neither the root nor a master: the piece is on its way, and the rest is not for this process.
    if blocks is None:
        return None

    wide = across(layout, root, maxlinear)
    if rank != root:
        # A master is the lowest of its client, so its blocks are in rank order here.
        yield from _collect(wide, rank, concatenate(blocks))
        return None

    # The root's own client is in `blocks`, so its place among these stays empty.
    far = yield from _collect(wide, rank, b"")

    pieces: list[Octets] = [piece] * layout.size
    # No message names ranks: both ends know the order from the tree alone.
    for octets, block in zip(blocks, indexes, strict=True):
        _place(pieces, octets, [near.members[i] for i in block], packing)

    for octets, masters in zip((far or [])[1:], wide.blocks[1:], strict=True):
        _place(
            pieces,
            octets,
            [r for m in masters for r in layout.locals_to_master(m)],
            packing,
        )

    pieces[root] = piece

    return pieces


def _collect(team: Team, rank: int, own: Octets) -> Algorithm[list[Octets] | None]:
    """Gather over the low-bit tree: the root gets its own and its children's ``Team.blocks``."""

    parent, children = team.low(rank)
    got = (yield [Recv(child, GATHER_TAG) for child in children]) if children else []

    blocks: list[Octets] = [own, *got]
    if parent is None:
        return blocks

    yield [Send(parent, concatenate(blocks), GATHER_TAG)]

    return None


def _place(
    pieces: list[Octets], octets: Octets, ranks: list[int], packing: Packing
) -> None:
    for rank, piece in zip(ranks, packing.split(octets, ranks), strict=True):
        pieces[rank] = piece
