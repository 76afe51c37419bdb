"""Trees of n vertices with root 0 whose subtrees have no gaps: the shapes that tables choose.

========= ==================== ================ ===================================
shape     parent of v          below v          children of v
========= ==================== ================ ===================================
flat      0                    v                of 0: 1, 2, ...
chain     v - 1                v .. n-1         v + 1
binomial  v without its lowest v .. v+2^k-1     v + 2^i for i < k, the largest first
          set bit 2^k
========= ==================== ================ ===================================

The trees are those of Barchet-Estefanel and Mounie (EuroPVM/MPI 2004). A child with a larger
subtree comes earlier, since it has more left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from impi.protocol.collectives import trees

Shape: TypeAlias = Callable[[int, int], tuple[int | None, tuple[tuple[int, int], ...]]]
"""``shape(v, n)``: the parent of v (None for 0), and (child, end of its subtree) of each child."""


def _flat(v: int, n: int) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    return (
        (None, tuple((child, child + 1) for child in range(1, n)))
        if v == 0
        else (0, ())
    )


def _chain(v: int, n: int) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    return (v - 1 if v > 0 else None), (((v + 1, n),) if v + 1 < n else ())


def _binomial(v: int, n: int) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    children = trees.low_children(v, n)
    # The subtree of a child with lowest bit 2^i has 2^i vertices, or as many as are left.
    below = tuple(
        (child, min(child + (child & -child), n)) for child in reversed(children)
    )
    return trees.low_parent(v), below


SHAPES: Final[Mapping[str, Shape]] = {
    "flat": _flat,
    "chain": _chain,
    "binomial": _binomial,
}
"""The shapes by name, as in :data:`impi.protocol.decisions.ALGORITHMS`."""


def links(
    shape: Shape, members: tuple[int, ...], first: int, rank: int
) -> tuple[int | None, tuple[int, ...]]:
    """Return parent and children of ``rank`` among ``members``; vertex 0 is at index ``first``."""

    n = len(members)
    parent, below = shape((members.index(rank) - first) % n, n)
    ranks = tuple(members[(child + first) % n] for child, _ in below)

    return (None if parent is None else members[(parent + first) % n]), ranks
