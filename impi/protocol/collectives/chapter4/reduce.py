"""Reduce (IMPI 4.16), with one form for every size.

*Commutative*: each client reduces to its master, or to the root; then star or low-bit tree: n-1
messages across clients, in one hop or ceil(log2 n) hops; n = masters. *Not commutative*: every
process sends to the root, without masters or tree: N-1 messages in one hop. The order of
combination, and with it the rounding, depends on the layout.
"""

from __future__ import annotations

from typing import TypeVar

from impi.protocol.collectives.layout import Layout
from impi.protocol.collectives.reduction import Reduction
from impi.protocol.collectives.steps import Algorithm, Local, Recv, Send
from impi.protocol.collectives.tags import REDUCE_TAG
from impi.protocol.collectives.teams import across, low_links

V = TypeVar("V")

# Values that a root without masters holds at once: enough to hide a hop, few for long vectors.
_AT_ONCE = 8


def reduce(
    layout: Layout,
    rank: int,
    root: int,
    value: V,
    reduction: Reduction[V],
    *,
    maxlinear: int,
    native: bool = False,
) -> Algorithm[V | None]:
    """The root returns the reduction of all values, the others None.

    ``value`` stays unchanged; a single process returns it itself. ``native``: local phases are
    :class:`Local` if the libraries know the reduction.

    Raises:
        LocalProtocolError: no such root.
    """

    layout.check(root, "root")
    if native and reduction.library is not None and layout.has_company(rank):
        return (
            yield from _native(
                layout, rank, root, value, reduction, maxlinear=maxlinear
            )
        )

    if reduction.commutative:
        return (
            yield from _over_masters(
                layout, rank, root, value, reduction, maxlinear=maxlinear
            )
        )

    return (yield from _in_rank_order(layout, rank, root, value, reduction))


def _over_masters(
    layout: Layout,
    rank: int,
    root: int,
    value: V,
    reduction: Reduction[V],
    *,
    maxlinear: int,
) -> Algorithm[V | None]:
    parent, wide, near = low_links(layout, rank, root, maxlinear)

    result = value
    if near or wide:
        # IMPI 4.16: once per message, the local phase first, then ascending: it fixes rounding.
        # LAM/MPI combines once after its loop, wrongly with 3 or 4 clients; we follow the text.
        got = yield [Recv(child, REDUCE_TAG) for child in (*near, *wide)]

        # `combine` may write into its second operand, and the caller's value has to stay as it is.
        result = reduction.copy(value)
        for other in got:
            result = reduction.combine(other, result)

    if parent is None:
        return result

    yield [Send(parent, result, REDUCE_TAG)]

    return None


def _native(
    layout: Layout,
    rank: int,
    root: int,
    value: V,
    reduction: Reduction[V],
    *,
    maxlinear: int,
) -> Algorithm[V | None]:
    stand_in = root if layout.are_local(rank, root) else layout.local_master_rank(rank)
    # The value that the library returns is fresh, so the loop below may combine into it.
    [result] = yield [Local("reduce", stand_in, value, reduction=reduction)]

    parent, wide = (
        across(layout, root, maxlinear).low(rank) if rank == stand_in else (None, ())
    )
    if wide:
        for other in (yield [Recv(child, REDUCE_TAG) for child in wide]):
            result = reduction.combine(other, result)

    if parent is not None:
        yield [Send(parent, result, REDUCE_TAG)]

    return result if rank == root else None


def _in_rank_order(
    layout: Layout, rank: int, root: int, value: V, reduction: Reduction[V]
) -> Algorithm[V | None]:
    if rank != root:
        yield [Send(root, value, REDUCE_TAG)]
        return None

    last = layout.size - 1
    if last == 0:
        return value

    # Operations that do not commute need the order of ranks, so all go to the root, also beyond
    # maxlinear masters. IMPI 4.16: x0 op (x1 op (... op xN-1)), so from the last rank down.
    held = {root: reduction.copy(value) if root == last else value}

    result = value
    for high in range(last, -1, -_AT_ONCE):
        # A few at a time: all at once would need N vectors of memory, one at a time a hop for each.
        ranks = range(high, max(high - _AT_ONCE, -1), -1)

        others = [r for r in ranks if r != root]
        if others:
            held.update(
                zip(others, (yield [Recv(r, REDUCE_TAG) for r in others]), strict=True)
            )

        for r in ranks:
            operand = held.pop(r)
            result = operand if r == last else reduction.combine(operand, result)

    return result
