"""Process topologies (MPI 4.1, chapter 8): grids and neighbours. No reordering: ranks stay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from impi.base.records import record
from impi.protocol.semantics.constants import PROC_NULL
from impi.protocol.semantics.errors import error


@record
class Cart:
    """A grid, row-major: the last dimension runs fastest."""

    dims: tuple[int, ...]
    periods: tuple[bool, ...]

    @property
    def size(self) -> int:
        """Processes in the grid; 1 without dimensions."""
        return math.prod(self.dims)

    def coords(self, rank: int) -> list[int]:
        """Return the coordinates of ``rank``. Raises Exception: ERR_RANK, it is not in the grid."""

        if not 0 <= rank < self.size:
            raise error("ERR_RANK", f"rank {rank} is not in a grid of {self.size}")

        where = []
        # Row-major: the coordinate in the last dimension is the remainder that comes off first.
        for extent in reversed(self.dims):
            rank, at = divmod(rank, extent)
            where.append(at)

        return where[::-1]

    def rank(self, coords: Sequence[int]) -> int:
        """Return the rank at ``coords``, which wrap around in periodic dimensions.

        Raises:
            Exception: ERR_ARG, outside of the grid.
        """
        rank = 0
        for at, extent, periodic in zip(coords, self.dims, self.periods, strict=True):
            if not periodic and not 0 <= at < extent:
                raise error(
                    "ERR_ARG",
                    f"coordinate {at} is not in 0..{extent - 1}, and the dimension is not periodic",
                )

            rank = rank * extent + at % extent

        return rank

    def shift(self, rank: int, direction: int, displacement: int) -> tuple[int, int]:
        """Return source and destination of a shift along a dimension; PROC_NULL beyond the rim.

        Raises:
            Exception: ERR_DIMS, there is no such dimension.
        """
        if not 0 <= direction < len(self.dims):
            raise error(
                "ERR_DIMS",
                f"direction {direction} is not one of {len(self.dims)} dimensions",
            )

        return self._moved(rank, direction, -displacement), self._moved(
            rank, direction, displacement
        )

    def neighbors(self, rank: int) -> list[int]:
        """Return the neighbours of ``rank``, down and up each dimension; PROC_NULL: there is
        none."""
        return [
            other
            for direction in range(len(self.dims))
            for other in self.shift(rank, direction, 1)
        ]

    def part(self, rank: int, remain: Sequence[bool]) -> tuple[Cart, int, int]:
        """Return the grid of the remaining dimensions, the number of ``rank``'s grid, and its rank
        there."""

        kept = [i for i, keep in enumerate(remain) if keep]
        rest = [i for i, keep in enumerate(remain) if not keep]
        where = self.coords(rank)
        inner, outer = self._chosen_dimensions(kept), self._chosen_dimensions(rest)

        return (
            inner,
            outer.rank([where[i] for i in rest]),
            inner.rank([where[i] for i in kept]),
        )

    def _chosen_dimensions(self, indexes: Sequence[int]) -> Cart:
        return Cart(
            tuple(self.dims[i] for i in indexes),
            tuple(self.periods[i] for i in indexes),
        )

    def _moved(self, rank: int, direction: int, displacement: int) -> int:
        where = self.coords(rank)

        where[direction] += displacement
        # Without a period there is nothing beyond the rim; with one, rank() wraps the coordinate.
        if (
            not self.periods[direction]
            and not 0 <= where[direction] < self.dims[direction]
        ):
            return PROC_NULL

        return self.rank(where)


@record
class Graph:
    """Any graph: the neighbours of node i are ``edges[index[i - 1] : index[i]]``."""

    index: tuple[int, ...]
    edges: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.index)

    def neighbors(self, rank: int) -> list[int]:
        """Return the neighbours of ``rank``. Raises Exception: ERR_RANK, it is not a node."""
        if not 0 <= rank < self.size:
            raise error("ERR_RANK", f"rank {rank} is not in a graph of {self.size}")

        return list(self.edges[self.index[rank - 1] if rank else 0 : self.index[rank]])


@record
class DistGraph:
    """A process's own edges of a graph."""

    sources: tuple[int, ...]
    destinations: tuple[int, ...]
    weights: tuple[tuple[int, ...], tuple[int, ...]] | None
    """Weights of the incoming and of the outgoing edges; None if the graph has none."""


Topology: TypeAlias = Cart | Graph | DistGraph
