"""Barrier and allgather in which all masters speak at once, instead of in and out of rank 0.

How it works: the procs of a client gather at their master, all masters exchange in rounds, and each
master spreads the result in its client. This saves hops: a barrier of n clients has ceil(log2 n) of
them instead of 2 to 2 ceil(log2 n), and so has an allgather. Two clients are the common case, and
one hop: each sends and receives at once.

Both are dissemination (Hensgen, Finkel and Manber 1988; for data Bruck et al. 1997). In round k
master m sends to the master 2^k before it, and receives from the one 2^k behind it, round a circle.
After k rounds it has heard of its next 2^k - 1 neighbours. So any number of masters will do.

Cost: n ceil(log2 n) messages across clients, where IMPI 4.10 and 4.19 have 2(n - 1). A client of
IMPI 0.0 expects those, so only clients of ours decide for an exchange, and all of them alike
(:mod:`impi.protocol.decisions`).
"""

from __future__ import annotations

from typing import Any

from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.packing import Fixed, Octets, Packing
from impi.protocol.collectives.steps import Algorithm, Local, Recv, Send
from impi.protocol.collectives.tags import BARRIER_TAG, BCAST_TAG, GATHER_TAG
from impi.protocol.collectives.teams import circle, high_within, within

_NOTHING = b""


def barrier_by_exchange(
    layout: Layout, rank: int, *, native: bool = False
) -> Algorithm[None]:
    """Return when every process has come here; see :func:`impi.protocol.collectives.barrier`."""

    # Alone in its client, a proc has no local phase: even an empty one would be a library call.
    if not layout.has_company(rank):
        yield from _masters_meet(layout, rank)
        return

    if native:
        # Two library barriers: the first tells the master that its client is here, the second tells
        # the client that all others are.
        together = Local("barrier", layout.local_master_rank(rank))

        yield [together]
        if layout.is_master(rank):
            yield from _masters_meet(layout, rank)

        yield [together]

        return

    parent, children = high_within(layout, rank, 0)
    if children:
        yield [Recv(child, BARRIER_TAG) for child in children]

    # The top of the tree inside the client is its master: `within` stands it there for root 0.
    if parent is None:
        yield from _masters_meet(layout, rank)
    else:
        yield [Send(parent, _NOTHING, BARRIER_TAG), Recv(parent, BARRIER_TAG)]

    if children:
        yield [Send(child, _NOTHING, BARRIER_TAG) for child in children]


def _masters_meet(layout: Layout, rank: int) -> Algorithm[None]:
    # Send and receive in one step: if each waited for its message first, all would wait for ever.
    for meeting in circle(layout, rank):
        yield [
            Recv(meeting.behind, BARRIER_TAG),
            Send(meeting.before, _NOTHING, BARRIER_TAG),
        ]


def allgather_by_exchange(
    layout: Layout, rank: int, piece: Octets, packing: Packing, *, native: bool = False
) -> Algorithm[list[Octets]]:
    """Every process returns the pieces of all ranks, in order.

    Args:
        layout: of the communicator.
        rank: the caller's.
        piece: the caller's contribution.
        packing: the form of joined pieces, the same everywhere.
        native: whether local phases are :class:`Local`, if all pieces have one size.

    Raises:
        PeerError: a piece does not have the size that ``packing`` says.
    """

    # The common case of two clients with one proc each can be received in place, without joining.
    if layout.size == 2 and layout.num_masters() == 2:
        return (yield from _cross_pieces(rank, piece, packing))

    native = native and isinstance(packing, Fixed) and layout.has_company(rank)
    near = layout.locals_to_rank(rank)
    master = near[0]

    own = packing.join([piece], [rank])
    if native:
        [blocks] = yield [Local("gather", master, own)]
    elif rank == master:
        blocks = [
            own,
            *((yield [Recv(r, GATHER_TAG) for r in near[1:]]) if len(near) > 1 else ()),
        ]
    else:
        yield [Send(master, own, GATHER_TAG)]

    pieces: list[Octets] | None = None
    if rank == master:
        pieces = yield from _circle(
            layout, rank, _split_each(blocks, near, packing), packing
        )
        # The caller's own object instead of its copy in the master's octets.
        pieces[rank] = piece

    return (yield from _spread(layout, rank, pieces, packing, native=native))


def _cross_pieces(
    rank: int, piece: Octets, packing: Packing
) -> Algorithm[list[Octets]]:
    """Two processes of two clients: their pieces cross, and may arrive in the result's place."""

    other = 1 - rank
    size = packing.size_of((other,))
    where = None if size is None else (other * size, size)
    [octets] = yield [
        Recv(other, GATHER_TAG, part=where),
        Send(other, packing.join([piece], [rank]), GATHER_TAG),
    ]
    # None stands for a piece that has arrived in its place.
    theirs: Any = None if octets is None else packing.split(octets, (other,))[0]

    return [theirs, piece] if rank else [piece, theirs]


def _split_each(
    blocks: list[Octets], ranks: tuple[int, ...], packing: Packing
) -> list[Octets]:
    return [
        packing.split(octets, (r,))[0] for octets, r in zip(blocks, ranks, strict=True)
    ]


def _circle(
    layout: Layout, rank: int, mine: list[Octets], packing: Packing
) -> Algorithm[list[Octets]]:
    """A master gives its client's pieces, by rank, and returns those of all ranks."""

    n, own = layout.num_masters(), layout.master_num(rank)
    ranks = list(layout.locals_to_rank(rank))
    held = list(mine)

    # Ends in `held` of the first 1, 2, ... clients, from the own one onwards
    ends = [len(ranks)]
    # Bruck's trick: in a round a master holds the clients behind it without a gap, so both ends
    # know the order of the pieces from n alone, and no ranks travel.
    for before, behind, distance, number in circle(layout, rank):
        sent = ends[number - 1]
        octets = packing.join(held[:sent], ranks[:sent])
        [got] = yield [Recv(behind, GATHER_TAG), Send(before, octets, GATHER_TAG)]

        theirs: list[int] = []
        for m in range(distance, distance + number):
            theirs += layout.locals_to_master((own + m) % n)
            ends.append(len(ranks) + len(theirs))

        # The new pieces are behind those that are there, and the circle goes on without a gap.
        held += packing.split(got, theirs)
        ranks += theirs

    pieces: list[Octets] = [_NOTHING] * layout.size
    for r, piece in zip(ranks, held, strict=True):
        pieces[r] = piece

    return pieces


def _spread(
    layout: Layout,
    rank: int,
    pieces: list[Octets] | None,
    packing: Packing,
    *,
    native: bool,
) -> Algorithm[list[Octets]]:
    """The master gives all pieces to its client, as one message."""

    everybody = range(layout.size)
    near = within(layout, rank, 0)
    master = near.members[near.first]
    parent, children = high_within(layout, rank, 0)

    # Only for those who have to pass it on; a master alone in its client keeps the pieces.
    joined = (
        None
        if pieces is None or not (native or children)
        else packing.join(pieces, everybody)
    )
    if native:
        [octets] = yield [
            Local("bcast", master, joined, like=packing.size_of(everybody))
        ]
    elif parent is None:
        octets = joined
    else:
        [octets] = yield [Recv(parent, BCAST_TAG, whole=True)]

    if children and not native:
        yield [Send(child, octets, BCAST_TAG) for child in children]

    return packing.split(octets, everybody) if pieces is None else pieces
