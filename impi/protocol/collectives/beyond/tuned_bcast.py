"""Broadcast over a chosen shape, whole or in segments (Barchet-Estefanel and Mounie, 2004).

Tag, stand-ins and local phase are those of IMPI 4.11; the tree among the stand-ins and the number
of messages differ. Cost across clients: (n-1) k messages of k segments, n = masters.
"""

from __future__ import annotations

from typing import Any

from impi.base.errors import PeerError
from impi.protocol.collectives.beyond.shapes import Shape, links
from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.packing import Octets
from impi.protocol.collectives.steps import Algorithm, Local, Recv, Send, Step
from impi.protocol.collectives.tags import BCAST_TAG
from impi.protocol.collectives.teams import across, high_within, within


def bcast_over(
    shape: Shape,
    layout: Layout,
    rank: int,
    root: int,
    value: Octets | None,
    nbytes: int,
    *,
    segment: int = 0,
    like: Any = None,
) -> Algorithm[Octets]:
    """Every process returns the root's ``value``, of ``nbytes`` octets.

    Args:
        shape: of the tree of the stand-ins.
        layout: of the communicator.
        rank: the caller's.
        root: the owner of the value.
        value: the root's; not read elsewhere.
        nbytes: octets of the value, known to all.
        segment: most octets of a message between clients; 0: the whole value.
        like: as for :func:`impi.protocol.collectives.bcast`.

    Raises:
        LocalProtocolError: no such root.
        PeerError: a segment does not have its length.
    """

    layout.check(root, "root")
    near = within(layout, rank, root)
    stand_in = near.members[near.first]

    native = like is not None and layout.has_company(rank)
    # Only stand-ins speak with other clients; everybody else hears from the one of its own client.
    if rank != stand_in:
        return (
            yield from _from_stand_in(
                high_within(layout, rank, root), stand_in, like, native=native
            )
        )

    wide = across(layout, root, 0)
    parent, children = links(shape, wide.members, wide.first, rank)

    cuts = _cuts(nbytes, segment)
    # The last sends are held back: in one list with the local phase, neither waits for the other.
    if parent is None:
        whole, last = _all_at_once(value, cuts, children)
    else:
        whole, last = yield from _relayed(parent, children, cuts)

    if native:
        last.append(Local("bcast", stand_in, whole, like))
    else:
        last += [
            Send(child, whole, BCAST_TAG)
            for child in high_within(layout, rank, root)[1]
        ]

    if last:
        yield last

    return whole


def _from_stand_in(
    near: tuple[int | None, tuple[int, ...]], stand_in: int, like: Any, *, native: bool
) -> Algorithm[Octets]:
    parent, children = near
    if native or parent is None:
        [whole] = yield [Local("bcast", stand_in, like=like)]
        return whole  # type: ignore[no-any-return]  # a step's result has the caller's type

    [whole] = yield [Recv(parent, BCAST_TAG, whole=True)]
    if children:
        yield [Send(child, whole, BCAST_TAG) for child in children]

    return whole  # type: ignore[no-any-return]


def _cuts(nbytes: int, segment: int) -> list[tuple[int, int]]:
    """Return first octet and end of each segment; there is at least one."""
    # An empty value still has one segment: a message tells the others that the root has come.
    size = segment if segment > 0 else max(nbytes, 1)
    return [
        (start, min(start + size, nbytes)) for start in range(0, max(nbytes, 1), size)
    ]


def _all_at_once(
    value: Octets | None, cuts: list[tuple[int, int]], children: tuple[int, ...]
) -> tuple[Octets, list[Step]]:
    """The root need not wait for anything: segment by segment, so that all children have work."""

    assert value is not None, "the root has the value"
    if len(cuts) == 1:
        return value, [Send(child, value, BCAST_TAG) for child in children]

    view = memoryview(value).cast("B")

    return value, [
        Send(child, view[start:end], BCAST_TAG)
        for start, end in cuts
        for child in children
    ]


def _relayed(
    parent: int, children: tuple[int, ...], cuts: list[tuple[int, int]]
) -> Algorithm[tuple[Octets, list[Step]]]:
    """Receive each segment while passing the one before on; return the sends of the last."""

    parts: list[Octets] = []

    sends: list[Step] = []
    for start, end in cuts:
        # One list: the next segment comes in while the last one goes out, which
        # is what segments are for.
        [part] = yield [Recv(parent, BCAST_TAG), *sends]
        if len(cuts) > 1 and len(part) != end - start:
            raise PeerError(
                f"a segment of a broadcast has {len(part)} octets, not {end - start}: "
                "counts and types must agree on all ranks",
                clause="4.11",
            )

        parts.append(part)
        sends = [Send(child, part, BCAST_TAG) for child in children]

    return (parts[0] if len(parts) == 1 else bytearray().join(parts)), sends
