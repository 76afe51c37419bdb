"""Broadcast (IMPI 4.11).

The root, whether a master or not, stands in for its client; the tree is rotated by its client's
master number. Cost across clients, for every size: n-1 messages, in one hop (linear) or ceil(log2
n) hops (tree); n = masters.
"""

from __future__ import annotations

from typing import Any, TypeVar

from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.steps import Algorithm, Local, Recv, Send, Step
from impi.protocol.collectives.tags import BCAST_TAG
from impi.protocol.collectives.teams import across, high_links

V = TypeVar("V")


def bcast(
    layout: Layout,
    rank: int,
    root: int,
    value: V | None = None,
    *,
    maxlinear: int,
    like: Any = None,
) -> Algorithm[V]:
    """Every process returns the root's ``value``; the others' own is not looked at.

    ``like``: if given, at all processes alike, the local phase is :class:`Local`, with this.
    """

    layout.check(root, "root")
    if like is not None and layout.has_company(rank):
        return (yield from _native(layout, rank, root, value, maxlinear, like))

    # Both phases are one tree here: who stands in for a client has children at
    # other clients and at its own.
    parent, wide, near = high_links(layout, rank, root, maxlinear)

    result = value
    if parent is not None:
        [result] = yield [Recv(parent, BCAST_TAG, whole=True)]

    # Other clients are further away, so they come first; no local phase delays another client.
    if wide or near:
        yield [Send(child, result, BCAST_TAG) for child in (*wide, *near)]

    return result  # type: ignore[return-value]  # the root's own is a value by contract


def _native(
    layout: Layout, rank: int, root: int, value: V | None, maxlinear: int, like: Any
) -> Algorithm[V]:
    stand_in = root if layout.are_local(rank, root) else layout.local_master_rank(rank)
    if rank != stand_in:
        [result] = yield [Local("bcast", stand_in, like=like)]
        return result  # type: ignore[no-any-return]  # a step's result has the caller's type

    parent, wide = across(layout, root, maxlinear).high(rank)

    result = value
    if parent is not None:
        [result] = yield [Recv(parent, BCAST_TAG, whole=True)]

    steps: list[Step] = [Send(child, result, BCAST_TAG) for child in wide]
    # In one list, so that the sends to other clients go on while the library spreads the value.
    yield [*steps, Local("bcast", stand_in, result, like)]

    return result  # type: ignore[no-any-return]  # the root's own is a value by contract
