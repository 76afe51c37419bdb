"""Topocomm and its subclasses: communicators whose procs have neighbours, as in mpi4py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from impi.protocol.collectives.beyond.neighbors import Edges
from impi.protocol.semantics.topology import Cart, DistGraph, Graph
from impi.rank.api.collective.neighborhood import Neighborhood
from impi.rank.api.comms import communicator
from impi.rank.api.comms.comm import Comm
from impi.rank.api.comms.communicator import Communicator
from impi.rank.api.comms.intracomm import Intracomm
from impi.rank.api.handles import guarded, guarded_collective, row

__all__ = ["Cartcomm", "Distgraphcomm", "Graphcomm", "Topocomm"]

T = TypeVar("T", Cart, Graph, DistGraph)


@guarded
class Topocomm(Intracomm, Neighborhood):
    """A communicator with a topology."""

    @classmethod
    def _takes(cls, state: Communicator) -> bool:
        return state.topology is not None

    @property
    def _edges(self) -> Edges:
        topology, rank = self._alive().topology, self.Get_rank()
        if isinstance(topology, Cart):
            neighbors = topology.neighbors(rank)
            # Data sent down a dimension comes from above, even if both are one process.
            other_ends = [number ^ 1 for number in range(len(neighbors))]
            return Edges(neighbors, neighbors, range(len(neighbors)), other_ends)

        if isinstance(topology, Graph):
            neighbors = topology.neighbors(rank)
            return Edges(neighbors, neighbors)

        if isinstance(topology, DistGraph):
            return Edges(topology.sources, topology.destinations)

        raise TypeError("expecting a topology communicator")

    def _kept(self, kind: type[T]) -> T:
        """Return the topology, which the class of the handle says to be of that kind."""

        self._live()
        topology = self._alive().topology
        assert isinstance(topology, kind), "the handle is of another class"

        return topology

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        edges = self._edges
        return (list(edges.sources), list(edges.destinations))

    @property
    def degrees(self) -> tuple[int, int]:
        edges = self._edges
        return (len(edges.sources), len(edges.destinations))

    indegree = property(lambda self: self.degrees[0], doc="number of incoming edges")
    outdegree = property(lambda self: self.degrees[1], doc="number of outgoing edges")
    inedges = property(
        lambda self: self.inoutedges[0], doc="sources of the incoming edges"
    )
    outedges = property(
        lambda self: self.inoutedges[1], doc="destinations of the outgoing edges"
    )


@guarded_collective("Sub")
class Cartcomm(Topocomm):
    """A communicator with a Cartesian grid."""

    @classmethod
    def _takes(cls, state: Communicator) -> bool:
        return isinstance(state.topology, Cart)

    def Get_dim(self) -> int:
        return len(self._kept(Cart).dims)

    dim = property(Get_dim, doc="number of dimensions")
    ndim = property(Get_dim, doc="number of dimensions")

    def Get_topo(self) -> tuple[list[int], list[int], list[int]]:
        """Return dimensions, periods (0 or 1), and the caller's coordinates."""
        grid = self._kept(Cart)
        return (
            list(grid.dims),
            [int(wrap) for wrap in grid.periods],
            grid.coords(self.Get_rank()),
        )

    topo = property(
        Get_topo, doc="dimensions, which of them are periodic, and where the caller is"
    )
    dims = property(lambda self: self.Get_topo()[0], doc="dimensions")
    periods = property(
        lambda self: self.Get_topo()[1], doc="which dimensions are periodic"
    )
    coords = property(lambda self: self.Get_topo()[2], doc="where the caller is")

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        where = row(coords)
        if len(where) != self.Get_dim():
            raise ValueError(
                f"expecting {self.Get_dim()} coordinates, got {len(where)}"
            )

        return self._kept(Cart).rank(where)

    def Get_coords(self, rank: int) -> list[int]:
        return self._kept(Cart).coords(rank)

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """Return source and destination of a shift along a dimension; PROC_NULL beyond the edge."""
        return self._kept(Cart).shift(self.Get_rank(), direction, disp)

    def Sub(self, remain_dims: Sequence[bool]) -> Cartcomm:
        """Split into grids of the remaining dimensions; the other coordinates are fixed."""

        remain = [bool(keep) for keep in row(remain_dims)]
        if len(remain) != self.Get_dim():
            raise ValueError(f"expecting {self.Get_dim()} flags, got {len(remain)}")

        part, number, place = self._kept(Cart).part(self.Get_rank(), remain)

        state = communicator.split(self._alive(), number, place)
        if state is not None:
            state.topology = part

        return cast("Cartcomm", self._handle(state))


@guarded
class Graphcomm(Topocomm):
    """A communicator with a graph that all procs know."""

    @classmethod
    def _takes(cls, state: Communicator) -> bool:
        return isinstance(state.topology, Graph)

    def Get_dims(self) -> tuple[int, int]:
        return (self._kept(Graph).size, len(self._kept(Graph).edges))

    dims = property(Get_dims, doc="numbers of nodes and of edges")
    nnodes = property(lambda self: self.Get_dims()[0], doc="number of nodes")
    nedges = property(lambda self: self.Get_dims()[1], doc="number of edges")

    def Get_topo(self) -> tuple[list[int], list[int]]:
        return (list(self._kept(Graph).index), list(self._kept(Graph).edges))

    topo = property(Get_topo, doc="index and edges")
    index = property(
        lambda self: self.Get_topo()[0], doc="where the edges of each node end"
    )
    edges = property(lambda self: self.Get_topo()[1], doc="the edges of all nodes")

    def Get_neighbors_count(self, rank: int) -> int:
        return len(self.Get_neighbors(rank))

    nneighbors = property(
        lambda self: self.Get_neighbors_count(self.Get_rank()),
        doc="number of neighbours",
    )

    def Get_neighbors(self, rank: int) -> list[int]:
        return self._kept(Graph).neighbors(rank)

    neighbors = property(
        lambda self: self.Get_neighbors(self.Get_rank()), doc="neighbours"
    )


@guarded
class Distgraphcomm(Topocomm):
    """A communicator with a graph; each proc knows its own edges."""

    @classmethod
    def _takes(cls, state: Communicator) -> bool:
        return isinstance(state.topology, DistGraph)

    def Get_dist_neighbors_count(self) -> Any:
        own = self._kept(DistGraph)
        return (len(own.sources), len(own.destinations), own.weights is not None)

    def Get_dist_neighbors(
        self,
    ) -> tuple[list[int], list[int], tuple[list[int], list[int]] | None]:
        own = self._kept(DistGraph)
        weights = (
            None
            if own.weights is None
            else (list(own.weights[0]), list(own.weights[1]))
        )
        return (list(own.sources), list(own.destinations), weights)


Comm._kinds[Cart] = Cartcomm
Comm._kinds[Graph] = Graphcomm
Comm._kinds[DistGraph] = Distgraphcomm
