"""Trees of n vertices around vertex 0 in which what is below a vertex has no gaps: the shapes that can be decided.

========= ==================== ================ ===================================
shape     parent of v          below v          children of v
========= ==================== ================ ===================================
flat      0                    v                of 0: 1, 2, ...
chain     v - 1                v .. n-1         v + 1
binomial  v without its lowest v .. v+2^k-1     v + 2^i for i < k, the largest first
          set bit 2^k
========= ==================== ================ ===================================

These are the broadcasts and scatters of Barchet-Estefanel and Mounie (EuroPVM/MPI 2004). A child with more below it
comes earlier, since it has more left to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from impi.collectives import trees

__all__ = ["SHAPES", "Shape", "links"]

Shape: TypeAlias = Callable[[int, int], tuple[int | None, tuple[tuple[int, int], ...]]]
"""``shape(v, n)``: the parent of vertex v (None: it is 0), and of each child the vertices below it as (child, end)."""


def _flat(v: int, n: int) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    return (None, tuple((child, child + 1) for child in range(1, n))) if v == 0 else (0, ())


def _chain(v: int, n: int) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    return (v - 1 if v > 0 else None), (((v + 1, n),) if v + 1 < n else ())


def _binomial(v: int, n: int) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    children = trees.low_children(v, n)
    below = tuple((child, min(child + (child & -child), n)) for child in reversed(children))
    return trees.low_parent(v), below


SHAPES: Final[Mapping[str, Shape]] = {"flat": _flat, "chain": _chain, "binomial": _binomial}
"""By name, as in :data:`impi.decisions.ALGORITHMS`."""


def links(shape: Shape, members: tuple[int, ...], first: int, rank: int) -> tuple[int | None, tuple[int, ...]]:
    """Parent and children of ``rank`` among ``members``, of which the one at ``first`` is vertex 0."""
    n = len(members)
    parent, below = shape((members.index(rank) - first) % n, n)
    ranks = tuple(members[(child + first) % n] for child, _ in below)
    return (None if parent is None else members[(parent + first) % n]), ranks
