"""Barrier (IMPI 4.10).

Cost across clients, n = masters: linear 2(n-1) messages in two hops; tree 2(n-1) messages in 2
ceil(log2 n) hops; all messages have 0 octets.
"""

from __future__ import annotations

from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.steps import Algorithm, Local, Recv, Send
from impi.protocol.collectives.tags import BARRIER_TAG
from impi.protocol.collectives.teams import Links, high_links

_NOTHING = b""


def barrier(
    layout: Layout, rank: int, *, maxlinear: int, native: bool = False
) -> Algorithm[None]:
    """Return when every process has come here. ``native``: local phases are :class:`Local`."""

    links = high_links(layout, rank, 0, maxlinear)
    if not (native and layout.has_company(rank)):
        yield from _over(layout, links, maxlinear)
        return

    # The library has no fan-in alone, so one barrier stands for it and a
    # second one for the fan-out.
    together = Local("barrier", layout.local_master_rank(rank))

    yield [together]
    if layout.num_masters() > 1:
        if layout.is_master(rank):
            yield from _over(layout, Links(links.parent, links.wide, ()), maxlinear)

        # The master comes here when all other clients have come.
        yield [together]


def _over(layout: Layout, links: Links, maxlinear: int) -> Algorithm[None]:
    parent, wide, near = links

    # IMPI 4.10: a linear root takes masters in ascending order, a tree the far children first.
    children = (*near, *(wide if layout.num_masters() <= maxlinear else reversed(wide)))
    # The own client counts among them: its procs have to be here before its master speaks for it.
    if children:
        yield [Recv(child, BARRIER_TAG) for child in children]

    if parent is not None:
        yield [Send(parent, _NOTHING, BARRIER_TAG), Recv(parent, BARRIER_TAG)]

    if children:
        yield [Send(child, _NOTHING, BARRIER_TAG) for child in (*wide, *near)]
