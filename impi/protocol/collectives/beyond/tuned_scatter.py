"""Scatter over a chosen shape (Barchet-Estefanel and Mounie, EuroPVM/MPI 2004).

Each message carries the pieces of every client below its receiver: by master number from the
receiver's own onwards and round, those of one client by rank, as in the short form of gather (IMPI
4.12). *Flat* is one message a client in one hop. Cost across clients: n-1 messages, n = masters; a
piece takes as many hops as its client is deep.
"""

from __future__ import annotations

from collections.abc import Sequence

from impi.base.errors import LocalProtocolError, PeerError
from impi.protocol.collectives.beyond.shapes import Shape
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.packing import Fixed, Octets, concatenate
from impi.protocol.collectives.steps import Algorithm, Recv, Send, Step
from impi.protocol.collectives.tags import SCATTER_TAG
from impi.protocol.collectives.teams import across


def scatter_over(
    shape: Shape,
    layout: Layout,
    rank: int,
    root: int,
    pieces: Sequence[Octets] | None,
    packing: Fixed,
) -> Algorithm[Octets]:
    """Every process returns its piece of the root's ``pieces``; others' ``pieces`` are not read.

    Raises:
        LocalProtocolError: no such root, or the root has not one piece for each rank.
        PeerError: pieces do not have the size that ``packing`` says.
    """

    layout.check(root, "root")
    team = across(layout, root, 0)

    near = layout.locals_to_rank(rank)
    if rank not in team.members:
        stand_in = (
            root if layout.are_local(rank, root) else layout.local_master_rank(rank)
        )
        [mine] = yield [Recv(stand_in, SCATTER_TAG)]
        return mine  # type: ignore[no-any-return]  # a step's result has the caller's type

    n = len(team.members)
    v = (team.members.index(rank) - team.first) % n
    parent, below = shape(v, n)

    # By vertex, so the clients below a child are a slice, and a message is cut
    # without a list of ranks.
    groups = [layout.locals_to_master((team.first + u) % n) for u in range(n)]
    if parent is None:
        blocks = _packed(pieces, groups, packing)
    else:
        above = team.members[(parent + team.first) % n]
        end = max([v + 1, *(end for _, end in below)])
        [octets] = yield [Recv(above, SCATTER_TAG)]
        blocks = dict(
            zip(range(v, end), _split(octets, groups[v:end], packing), strict=True)
        )

    steps: list[Step] = []
    for child, end in below:
        # Blocks pass through as octets: only the own one is ever cut into pieces.
        block = concatenate([blocks[u] for u in range(child, end)])
        steps.append(Send(team.members[(child + team.first) % n], block, SCATTER_TAG))

    own = dict(zip(near, packing.split(blocks[v], near), strict=True))

    steps += [Send(r, own[r], SCATTER_TAG) for r in near if r != rank]
    if steps:
        yield steps

    return own[rank]


def _packed(
    pieces: Sequence[Octets] | None, groups: list[tuple[int, ...]], packing: Fixed
) -> dict[int, Octets]:
    """The pieces of each client as one block."""
    size = sum(map(len, groups))
    if pieces is None or len(pieces) != size:
        held = "none" if pieces is None else str(len(pieces))
        raise LocalProtocolError(
            f"a scatter to {size} processes needs as many pieces at the root, not {held}"
        )

    return {
        u: packing.join([pieces[r] for r in ranks], ranks)
        for u, ranks in enumerate(groups)
    }


def _split(
    octets: Octets, groups: list[tuple[int, ...]], packing: Fixed
) -> list[Octets]:
    """The blocks of a message, one for each client."""

    sizes = [packing.size * len(ranks) for ranks in groups]

    view = memoryview(octets)
    if view.nbytes != sum(sizes):
        raise PeerError(
            f"a collective message has {view.nbytes} octets where its pieces need {sum(sizes)}: "
            "counts and types must agree on all ranks",
            clause="4.1",
        )

    blocks: list[Octets] = []

    position = 0
    for size in sizes:
        blocks.append(view[position : position + size])
        position += size

    return blocks
