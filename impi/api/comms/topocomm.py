"""Topocomm and its subclasses: communicators whose procs have neighbours, as in mpi4py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from impi.api.collective.neighborhood import Neighborhood
from impi.api.comms import communicator
from impi.api.comms.comm import Comm
from impi.api.comms.communicator import Communicator
from impi.api.comms.intracomm import Intracomm
from impi.api.handles.failing import guarded, guarded_collective
from impi.api.handles.integers import row
from impi.collectives.neighbors import Edges
from impi.semantics.topology import Cart, DistGraph, Graph

__all__ = ["Cartcomm", "Distgraphcomm", "Graphcomm", "Topocomm"]


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

    @property
    def inoutedges(self) -> tuple[list[int], list[int]]:
        """Return the ranks of sources and destinations of the caller's edges."""
        edges = self._edges
        return (list(edges.sources), list(edges.destinations))

    @property
    def degrees(self) -> tuple[int, int]:
        """Return the numbers of incoming and outgoing edges."""
        edges = self._edges
        return (len(edges.sources), len(edges.destinations))

    indegree = property(lambda self: self.degrees[0], doc="number of incoming edges")
    outdegree = property(lambda self: self.degrees[1], doc="number of outgoing edges")
    inedges = property(lambda self: self.inoutedges[0], doc="sources of the incoming edges")
    outedges = property(lambda self: self.inoutedges[1], doc="destinations of the outgoing edges")


@guarded_collective("Sub")
class Cartcomm(Topocomm):
    """A communicator with a Cartesian grid."""

    @classmethod
    def _takes(cls, state: Communicator) -> bool:
        return isinstance(state.topology, Cart)

    @property
    def _grid(self) -> Cart:
        self._live()
        topology = self._alive().topology
        assert isinstance(topology, Cart)
        return topology

    def Get_dim(self) -> int:
        """Return the number of dimensions."""
        return len(self._grid.dims)

    dim = property(Get_dim, doc="number of dimensions")
    ndim = property(Get_dim, doc="number of dimensions")

    def Get_topo(self) -> tuple[list[int], list[int], list[int]]:
        """Return dimensions, periods (0 or 1), and the caller's coordinates."""
        grid = self._grid
        return (list(grid.dims), [int(wrap) for wrap in grid.periods], grid.coords(self.Get_rank()))

    topo = property(Get_topo, doc="dimensions, which of them are periodic, and where the caller is")
    dims = property(lambda self: self.Get_topo()[0], doc="dimensions")
    periods = property(lambda self: self.Get_topo()[1], doc="which dimensions are periodic")
    coords = property(lambda self: self.Get_topo()[2], doc="where the caller is")

    def Get_cart_rank(self, coords: Sequence[int]) -> int:
        """Return the rank at ``coords``, which wrap around in periodic dimensions."""
        where = row(coords)
        if len(where) != self.Get_dim():
            raise ValueError(f"expecting {self.Get_dim()} coordinates, got {len(where)}")
        return self._grid.rank(where)

    def Get_coords(self, rank: int) -> list[int]:
        """Return the coordinates of ``rank``."""
        return self._grid.coords(rank)

    def Shift(self, direction: int, disp: int) -> tuple[int, int]:
        """Return source and destination of a shift along a dimension; PROC_NULL beyond the edge."""
        return self._grid.shift(self.Get_rank(), direction, disp)

    def Sub(self, remain_dims: Sequence[bool]) -> Cartcomm:
        """Split into grids of the remaining dimensions; the other coordinates are fixed."""
        remain = [bool(keep) for keep in row(remain_dims)]
        if len(remain) != self.Get_dim():
            raise ValueError(f"expecting {self.Get_dim()} flags, got {len(remain)}")
        part, number, place = self._grid.part(self.Get_rank(), remain)
        state = communicator.split(self._alive(), number, place)
        if state is not None:
            state.topology = part
        sub: Cartcomm = self._handle(state)
        return sub


@guarded
class Graphcomm(Topocomm):
    """A communicator with a graph that all procs know."""

    @classmethod
    def _takes(cls, state: Communicator) -> bool:
        return isinstance(state.topology, Graph)

    @property
    def _graph_of(self) -> Graph:
        self._live()
        topology = self._alive().topology
        assert isinstance(topology, Graph)
        return topology

    def Get_dims(self) -> tuple[int, int]:
        """Return the numbers of nodes and edges."""
        return (self._graph_of.size, len(self._graph_of.edges))

    dims = property(Get_dims, doc="numbers of nodes and of edges")
    nnodes = property(lambda self: self.Get_dims()[0], doc="number of nodes")
    nedges = property(lambda self: self.Get_dims()[1], doc="number of edges")

    def Get_topo(self) -> tuple[list[int], list[int]]:
        """Return index and edges."""
        return (list(self._graph_of.index), list(self._graph_of.edges))

    topo = property(Get_topo, doc="index and edges")
    index = property(lambda self: self.Get_topo()[0], doc="where the edges of each node end")
    edges = property(lambda self: self.Get_topo()[1], doc="the edges of all nodes")

    def Get_neighbors_count(self, rank: int) -> int:
        """Return the number of neighbours of ``rank``."""
        return len(self.Get_neighbors(rank))

    nneighbors = property(lambda self: self.Get_neighbors_count(self.Get_rank()), doc="number of neighbours")

    def Get_neighbors(self, rank: int) -> list[int]:
        """Return the neighbours of ``rank``."""
        return self._graph_of.neighbors(rank)

    neighbors = property(lambda self: self.Get_neighbors(self.Get_rank()), doc="neighbours")


@guarded
class Distgraphcomm(Topocomm):
    """A communicator with a graph of which each proc knows its own edges."""

    @classmethod
    def _takes(cls, state: Communicator) -> bool:
        return isinstance(state.topology, DistGraph)

    @property
    def _own_edges(self) -> DistGraph:
        self._live()
        topology = self._alive().topology
        assert isinstance(topology, DistGraph)
        return topology

    def Get_dist_neighbors_count(self) -> Any:
        """Return the numbers of incoming and outgoing edges, and whether edges have weights."""
        own = self._own_edges
        return (len(own.sources), len(own.destinations), own.weights is not None)

    def Get_dist_neighbors(self) -> tuple[list[int], list[int], tuple[list[int], list[int]] | None]:
        """Return sources, destinations, and their weights or None."""
        own = self._own_edges
        weights = None if own.weights is None else (list(own.weights[0]), list(own.weights[1]))
        return (list(own.sources), list(own.destinations), weights)


Comm._kinds[Cart] = Cartcomm
Comm._kinds[Graph] = Graphcomm
Comm._kinds[DistGraph] = Distgraphcomm
