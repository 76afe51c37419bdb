"""Reduce and allreduce with 3-2 elimination among the stand-ins of the clients.

The local phases are those of IMPI 4.16 and 4.11. Only for operations that commute: values are
combined client by client, from the root's onwards and round, and inside one by the local phase.
That is rank order only where every client's ranks are neighbours.
"""

from __future__ import annotations

from typing import TypeVar

from impi.protocol.collectives.beyond.elimination import reduce_to_all, reduce_to_first
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.reduction import Reduction
from impi.protocol.collectives.steps import Algorithm, Local, Recv, Send
from impi.protocol.collectives.tags import BCAST_TAG, REDUCE_TAG
from impi.protocol.collectives.teams import across, high_within, low_within, within

V = TypeVar("V")


def reduce_by_elimination(
    layout: Layout,
    rank: int,
    root: int,
    value: V,
    reduction: Reduction[V],
    *,
    threshold: int,
    native: bool = False,
) -> Algorithm[V | None]:
    """The root returns the reduction of all values, the others None; see
    :func:`impi.protocol.collectives.chapter4.reduce.reduce`.

    ``threshold``: octets; larger buffers are halved. ``reduction`` commutes and has ``elements``.

    Raises:
        LocalProtocolError: no such root.
    """

    layout.check(root, "root")
    native = native and reduction.library is not None and layout.has_company(rank)
    local = yield from _reduce_in_client(
        layout, rank, root, value, reduction, native=native
    )

    team = across(layout, root, 0)
    if rank not in team.members:
        return None

    # From the root's onwards and round, so that the root is vertex 0.
    vertices = (*team.members[team.first :], *team.members[: team.first])
    # A local phase has made a value of its own. Alone, the stand-in still has the caller's,
    # which must stay as it is.
    fresh = layout.has_company(rank)

    return (
        yield from reduce_to_first(
            vertices,
            vertices.index(rank),
            local,
            reduction,
            threshold=threshold,
            fresh=fresh,
        )
    )


def allreduce_by_elimination(
    layout: Layout,
    rank: int,
    value: V,
    reduction: Reduction[V],
    *,
    threshold: int,
    native: bool = False,
) -> Algorithm[V]:
    """Every process returns the same reduction of all values; see :func:`reduce_by_elimination`."""

    if layout.has_company(rank):
        return _allreduce_in_phases(
            layout, rank, value, reduction, threshold=threshold, native=native
        )

    # Without a local phase the caller's own value goes across, and stays as it is (not `fresh`). A
    # maxlinear of 0: the team's star or tree is not used, only who stands in for whom.
    vertices = across(layout, 0, 0).members

    return reduce_to_all(
        vertices, vertices.index(rank), value, reduction, threshold=threshold
    )


def _allreduce_in_phases(
    layout: Layout,
    rank: int,
    value: V,
    reduction: Reduction[V],
    *,
    threshold: int,
    native: bool,
) -> Algorithm[V]:
    native = native and reduction.library is not None
    # Three phases: to the stand-in of the client, among all stand-ins, and back into the client.
    local = yield from _reduce_in_client(
        layout, rank, 0, value, reduction, native=native
    )
    near = within(layout, rank, 0)
    stand_in = near.members[near.first]

    parent, children = high_within(layout, rank, 0)
    if rank == stand_in:
        vertices = across(layout, 0, 0).members

        whole = yield from reduce_to_all(
            vertices,
            vertices.index(rank),
            local,
            reduction,
            threshold=threshold,
            fresh=True,
        )
        if native:
            yield [Local("bcast", stand_in, whole, like=value)]
    elif native or parent is None:
        [whole] = yield [Local("bcast", stand_in, like=value)]
    else:
        [whole] = yield [Recv(parent, BCAST_TAG, whole=True)]

    if children and not native:
        yield [Send(child, whole, BCAST_TAG) for child in children]

    return whole


def _reduce_in_client(
    layout: Layout,
    rank: int,
    root: int,
    value: V,
    reduction: Reduction[V],
    *,
    native: bool,
) -> Algorithm[V]:
    """The stand-in returns the reduction of its client's values, fresh if there are several."""

    near = within(layout, rank, root)

    stand_in = near.members[near.first]
    if native:
        [result] = yield [Local("reduce", stand_in, value, reduction=reduction)]
        return result  # type: ignore[no-any-return]  # a step's result has the caller's type

    parent, children = low_within(layout, rank, root)

    result = value
    if children:
        got = yield [Recv(child, REDUCE_TAG) for child in children]

        result = reduction.copy(value)
        for other in got:
            result = reduction.combine(other, result)

    if parent is not None:
        yield [Send(parent, result, REDUCE_TAG)]

    return result
