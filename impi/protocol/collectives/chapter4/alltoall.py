"""Alltoall (IMPI 4.22).

One form for every size: one message for each pair, all at once: N(N-1) in one hop. [RECON] The
original packs short blocks into one message for each pair of masters, but the order inside it is
lost. :func:`alltoall_by_masters` is our reading: n(n-1) messages across clients in one hop, n =
masters. All clients must choose the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from impi.base.errors import LocalProtocolError
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.packing import Octets, Packing
from impi.protocol.collectives.steps import Algorithm, Local, Recv, Send, Step
from impi.protocol.collectives.tags import ALLTOALL_TAG

V = TypeVar("V")


def alltoall(
    layout: Layout,
    rank: int,
    pieces: Sequence[V],
    *,
    alike: bool = False,
    size: int | None = None,
) -> Algorithm[list[V]]:
    """Every process gives a piece for each rank and returns one from each, its own unchanged.

    ``alike``: under one client use :class:`Local`, as all pieces are octets of one size.
    ``size``: octets of each, if all processes know them: they may then arrive in their places.

    Raises:
        LocalProtocolError: not one piece for each rank.
    """
    if alike and layout.num_masters() == 1 and layout.size > 1:
        _check(layout, rank, pieces)
        [got] = yield [Local("alltoall", value=pieces)]
        return got  # type: ignore[no-any-return]  # a step's result has the caller's type

    return (yield from alltoall_direct(layout, rank, pieces, ALLTOALL_TAG, size=size))


def alltoall_direct(
    layout: Layout, rank: int, pieces: Sequence[V], tag: int, *, size: int | None = None
) -> Algorithm[list[V]]:
    """:func:`alltoall` with any tag."""

    n = layout.size
    _check(layout, rank, pieces)
    # Each begins with its successor, which spreads the load; the wire shows only a pair's order.
    sources = [(rank - i) % n for i in range(1, n)]
    steps: list[Step] = [
        Recv(source, tag, part=None if size is None else (source * size, size))
        for source in sources
    ]
    steps += [Send((rank + i) % n, pieces[(rank + i) % n], tag) for i in range(1, n)]
    got = (yield steps) if steps else []

    # In the place of the own piece nothing arrives: it stays the one that was given.
    result = list(pieces)
    for source, piece in zip(sources, got, strict=True):
        result[source] = piece

    return result


def alltoall_by_masters(
    layout: Layout, rank: int, pieces: Sequence[Octets], packing: Packing
) -> Algorithm[list[Octets]]:
    """:func:`alltoall` for short pieces: each master speaks for its client.

    A message between masters holds the pieces from the processes of one client to those of the
    other, by source, then by destination, both by rank [RECON]. ``packing`` must know a piece by
    its size alone, as ``Fixed`` does.

    Raises:
        LocalProtocolError: not one piece for each rank.
        PeerError: a piece does not have the size that ``packing`` says.
    """

    _check(layout, rank, pieces)
    everybody, near = range(layout.size), layout.locals_to_rank(rank)

    master = layout.local_master_rank(rank)
    # Three phases at a master, two messages at anybody else: all pieces to the
    # master, all results from it.
    if rank != master:
        yield [Send(master, packing.join(pieces, everybody), ALLTOALL_TAG)]
        [octets] = yield [Recv(master, ALLTOALL_TAG)]
        return packing.split(octets, everybody)

    got = (yield [Recv(r, ALLTOALL_TAG) for r in near[1:]]) if len(near) > 1 else []
    given = {rank: list(pieces)}
    given.update(
        (r, packing.split(octets, everybody))
        for r, octets in zip(near[1:], got, strict=True)
    )
    # Pieces inside this client do not travel, though the master has them in hand, too.
    taken = {(source, r): given[source][r] for r in near for source in near}

    others = [n for n in range(layout.num_masters()) if n != layout.master_num(rank)]
    if others:
        taken.update(
            (yield from _between_masters(layout, near, others, given, packing))
        )

    results = {r: [taken[source, r] for source in everybody] for r in near}
    if len(near) > 1:
        yield [
            Send(r, packing.join(results[r], everybody), ALLTOALL_TAG) for r in near[1:]
        ]

    # The caller's own object, not a slice of the octets that it was joined to.
    results[rank][rank] = pieces[rank]

    return results[rank]


def _between_masters(
    layout: Layout,
    near: Sequence[int],
    others: Sequence[int],
    given: Mapping[int, Sequence[Octets]],
    packing: Packing,
) -> Algorithm[dict[tuple[int, int], Octets]]:
    """Exchange ``given`` pieces of client ``near`` with ``others``; pieces by (source, dest)."""

    # Receives first: all masters send at once, and no master may wait for another's receive.
    steps: list[Step] = [Recv(layout.master_rank(n), ALLTOALL_TAG) for n in others]
    for n in others:
        pairs = [
            (source, dest) for source in near for dest in layout.locals_to_master(n)
        ]
        octets = packing.join(
            [given[source][dest] for source, dest in pairs], [dest for _, dest in pairs]
        )
        steps.append(Send(layout.master_rank(n), octets, ALLTOALL_TAG))

    taken: dict[tuple[int, int], Octets] = {}
    for n, octets in zip(others, (yield steps), strict=True):
        pairs = [
            (source, dest) for source in layout.locals_to_master(n) for dest in near
        ]
        taken.update(
            zip(pairs, packing.split(octets, [dest for _, dest in pairs]), strict=True)
        )

    return taken


def _check(layout: Layout, rank: int, pieces: Sequence[V]) -> None:
    if len(pieces) != layout.size:
        raise LocalProtocolError(
            f"an alltoall of {layout.size} processes needs as many pieces from rank {rank}, not {len(pieces)}"
        )
