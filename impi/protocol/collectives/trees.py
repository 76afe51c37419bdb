"""The two binomial trees of chapter 4, on vertices 0 .. n-1 with vertex 0 as the root.

========= ============================ ================================= ==========================
tree      used by                      parent of v                       n = 6
========= ============================ ================================= ==========================
high-bit  barrier, bcast (4.10, 4.11)  v without its highest set bit     1>0 2>0 3>1 4>0 5>1
low-bit   gather, reduce (4.12, 4.16)  v without its lowest set bit      1>0 2>0 3>2 4>0 5>4
========= ============================ ================================= ==========================

In the low-bit tree the vertices below v are v+1, v+2, ... without a gap, as a gather needs. Every
function is O(log n).
"""

from __future__ import annotations


def cubedim(n: int) -> int:
    """Return the dimension of the smallest hypercube with ``n`` vertices; -1 for n < 1 (4.2)."""
    return (n - 1).bit_length() if n > 0 else -1


def hibit(v: int, dim: int) -> int:
    """Return the position of the highest set bit in ``v``'s low ``dim`` bits; -1 if none (4.2)."""
    if v < 1 or dim < 1:
        return -1

    return (v & ((1 << dim) - 1)).bit_length() - 1


def high_parent(v: int) -> int | None:
    """The parent of ``v`` in the high-bit tree, None for the root."""
    return v ^ (1 << (v.bit_length() - 1)) if v > 0 else None


def high_children(v: int, n: int) -> tuple[int, ...]:
    """The children of ``v`` in the high-bit tree of ``n`` vertices, ascending."""
    # A child sets a bit above the highest one of v, so its parent is found by clearing that.
    dim = cubedim(n)
    return tuple(
        child for i in range(hibit(v, dim) + 1, dim) if (child := v | (1 << i)) < n
    )


def low_parent(v: int) -> int | None:
    """The parent of ``v`` in the low-bit tree, None for the root."""
    return v & (v - 1) if v > 0 else None


def low_children(v: int, n: int) -> tuple[int, ...]:
    """The children of ``v`` in the low-bit tree of ``n`` vertices, ascending."""
    # A child sets a bit below the lowest one of v. The root has no bit, so all are below.
    lowest = (v & -v).bit_length() - 1 if v > 0 else cubedim(n)
    return tuple(child for i in range(lowest) if (child := v | (1 << i)) < n)
