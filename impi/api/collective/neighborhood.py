"""Neighbourhood collectives of Topocomm: blocks along the edges of a topology, as in mpi4py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from impi.api.collective.derived import Nonblocking, Persistent, derive
from impi.api.collective.on_buffers import BufferOperations, Start, place, snapshots
from impi.api.handles.failing import guarded_collective
from impi.api.p2p.request import Request
from impi.api.types import marshalling
from impi.api.types.buffers import kept_blocks, kept_buffer
from impi.api.types.pickling import pickle
from impi.collectives import neighbors

if TYPE_CHECKING:
    from impi.api.types.specs import BufferSpec
    from impi.collectives.neighbors import Edges


@guarded_collective()
@derive
class Neighborhood(BufferOperations):
    """The methods; :class:`impi.api.comms.topocomm.Topocomm` has the edges."""

    Ineighbor_allgather: Nonblocking
    Ineighbor_allgatherv: Nonblocking
    Ineighbor_alltoall: Nonblocking
    Ineighbor_alltoallv: Nonblocking
    Ineighbor_alltoallw: Nonblocking
    Neighbor_allgather_init: Persistent
    Neighbor_allgatherv_init: Persistent
    Neighbor_alltoall_init: Persistent
    Neighbor_alltoallv_init: Persistent
    Neighbor_alltoallw_init: Persistent

    if TYPE_CHECKING:

        @property
        def _edges(self) -> Edges: ...

    # ---- buffers ---------------------------------------------------------------------------------

    def Neighbor_allgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Receive a block from every source, which sends it to all its destinations."""
        self._neighbor_allgather(sendbuf, recvbuf)().Wait()

    def Neighbor_allgatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Receive a block from every source, of its own length and displacement."""
        self._neighbor_allgatherv(sendbuf, recvbuf)().Wait()

    def Neighbor_alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Receive a block from every source, send one to every destination."""
        self._neighbor_alltoall(sendbuf, recvbuf)().Wait()

    def Neighbor_alltoallv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Receive and send a part along each edge, of its own length and displacement."""
        self._neighbor_alltoallv(sendbuf, recvbuf)().Wait()

    def Neighbor_alltoallw(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Receive and send a part along each edge, of its own length, displacement and datatype."""
        self._neighbor_alltoallw(sendbuf, recvbuf)().Wait()

    # ---- pickled objects -------------------------------------------------------------------------

    def neighbor_allgather(self, sendobj: object) -> list[Any]:
        """Receive an object from every source; None for MPI_PROC_NULL."""
        return self._along([sendobj] * len(self._edges.destinations))

    def neighbor_alltoall(self, sendobj: list[Any]) -> list[Any]:
        """Receive an object from every source, send one to every destination; None: PROC_NULL."""
        return self._along(sendobj)

    def _along(self, objects: list[Any]) -> list[Any]:
        edges = self._edges
        pieces = [pickle.dumps(obj) for obj in objects]
        if len(pieces) != len(edges.destinations):
            raise ValueError(f"expecting {len(edges.destinations)} items, got {len(pieces)}")
        got = self._complete(neighbors.exchange(self._live().rank, edges, pieces))
        return [None if piece is None else pickle.loads(piece) for piece in got]

    # ---- inside ----------------------------------------------------------------------------------

    def _neighbor_allgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        message = kept_buffer(sendbuf, readonly=True)
        into = kept_buffer(recvbuf, readonly=False, blocks=len(self._edges.sources))
        return self._neighbor_start(lambda n: [marshalling.packed(message)] * n, into)

    def _neighbor_allgatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        message = kept_buffer(sendbuf, readonly=True)
        into = kept_blocks(recvbuf, readonly=False, blocks=len(self._edges.sources))
        return self._neighbor_start(lambda n: [marshalling.packed(message)] * n, into)

    def _neighbor_alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        message = kept_buffer(sendbuf, readonly=True, blocks=len(self._edges.destinations))
        into = kept_buffer(recvbuf, readonly=False, blocks=len(self._edges.sources))
        return self._neighbor_start(lambda n: snapshots(message, into, n), into)

    def _neighbor_alltoallv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        message = kept_blocks(sendbuf, readonly=True, blocks=len(self._edges.destinations))
        into = kept_blocks(recvbuf, readonly=False, blocks=len(self._edges.sources))
        return self._neighbor_start(lambda n: snapshots(message, into, n), into)

    def _neighbor_alltoallw(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        message = kept_blocks(sendbuf, readonly=True, blocks=len(self._edges.destinations), typed=True)
        into = kept_blocks(recvbuf, readonly=False, blocks=len(self._edges.sources), typed=True)
        return self._neighbor_start(lambda n: snapshots(message, into, n), into)

    def _neighbor_start(self, pieces: Any, into: Any) -> Start:
        edges, rank = self._edges, self._live().rank

        def start() -> Request:
            algorithm = neighbors.exchange(rank, edges, pieces(len(edges.destinations)))
            return self._begin(algorithm, lambda got: place(into, got))

        return start
