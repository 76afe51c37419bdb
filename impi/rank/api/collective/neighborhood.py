"""Neighbourhood collectives of Topocomm: blocks along the edges of a topology, as in mpi4py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from impi.protocol.collectives.beyond import neighbors
from impi.rank.api.collective.on_buffers import (
    BufferOperations,
    Start,
    place,
    snapshots,
)
from impi.rank.api.collective.operation_table import Collective
from impi.rank.api.handles.failing import guarded_collective
from impi.rank.api.handles.info import INFO_NULL, Info
from impi.rank.api.p2p.request import Prequest, Request
from impi.rank.api.types import marshalling
from impi.rank.api.types.buffers import kept_blocks, kept_buffer
from impi.rank.api.types.pickling import pickle

if TYPE_CHECKING:
    from impi.protocol.collectives.beyond.neighbors import Edges
    from impi.rank.api.types.specs import BufferSpec


class NeighborOperations(BufferOperations):
    """The methods that read the buffers of a call; they return starters."""

    if TYPE_CHECKING:

        @property
        def _edges(self) -> Edges: ...

    def _neighbor_allgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        message = kept_buffer(sendbuf, readonly=True)
        into = kept_buffer(recvbuf, readonly=False, blocks=len(self._edges.sources))
        return self._neighbor_start(lambda n: [marshalling.packed(message)] * n, into)

    def _neighbor_allgatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        message = kept_buffer(sendbuf, readonly=True)
        into = kept_blocks(recvbuf, readonly=False, blocks=len(self._edges.sources))
        return self._neighbor_start(lambda n: [marshalling.packed(message)] * n, into)

    def _neighbor_alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        message = kept_buffer(
            sendbuf, readonly=True, blocks=len(self._edges.destinations)
        )
        into = kept_buffer(recvbuf, readonly=False, blocks=len(self._edges.sources))
        return self._neighbor_start(lambda n: snapshots(message, into, n), into)

    def _neighbor_alltoallv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        message = kept_blocks(
            sendbuf, readonly=True, blocks=len(self._edges.destinations)
        )
        into = kept_blocks(recvbuf, readonly=False, blocks=len(self._edges.sources))
        return self._neighbor_start(lambda n: snapshots(message, into, n), into)

    def _neighbor_alltoallw(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Start:
        message = kept_blocks(
            sendbuf, readonly=True, blocks=len(self._edges.destinations), typed=True
        )
        into = kept_blocks(
            recvbuf, readonly=False, blocks=len(self._edges.sources), typed=True
        )
        return self._neighbor_start(lambda n: snapshots(message, into, n), into)

    def _neighbor_start(self, pieces: Any, into: Any) -> Start:
        edges, rank = self._edges, self._live().rank

        def start(blocking: bool = False) -> Request:
            algorithm = neighbors.exchange(rank, edges, pieces(len(edges.destinations)))
            return self._begin(
                algorithm, lambda got: place(into, got), blocking=blocking
            )

        return start


NEIGHBOR_ALLGATHER: Final = Collective(
    "Neighbor_allgather", NeighborOperations._neighbor_allgather
)
NEIGHBOR_ALLGATHERV: Final = Collective(
    "Neighbor_allgatherv", NeighborOperations._neighbor_allgatherv
)
NEIGHBOR_ALLTOALL: Final = Collective(
    "Neighbor_alltoall", NeighborOperations._neighbor_alltoall
)
NEIGHBOR_ALLTOALLV: Final = Collective(
    "Neighbor_alltoallv", NeighborOperations._neighbor_alltoallv
)
NEIGHBOR_ALLTOALLW: Final = Collective(
    "Neighbor_alltoallw", NeighborOperations._neighbor_alltoallw
)


@guarded_collective()
class Neighborhood(NeighborOperations):
    """The calls along edges; :class:`impi.rank.api.comms.topocomm.Topocomm` inherits them."""

    # ---- buffers ---------------------------------------------------------------------------------

    def Neighbor_allgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Receive a block from every source, which sends it to all its destinations."""
        NEIGHBOR_ALLGATHER.blocking(self, sendbuf, recvbuf)().Wait()

    def Neighbor_allgatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Receive a block from every source, of its own length and displacement."""
        NEIGHBOR_ALLGATHERV.blocking(self, sendbuf, recvbuf)().Wait()

    def Neighbor_alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Receive a block from every source, send one to every destination."""
        NEIGHBOR_ALLTOALL.blocking(self, sendbuf, recvbuf)().Wait()

    def Neighbor_alltoallv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Receive and send a part along each edge, of its own length and displacement."""
        NEIGHBOR_ALLTOALLV.blocking(self, sendbuf, recvbuf)().Wait()

    def Neighbor_alltoallw(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Receive and send a part along each edge, of its own length, displacement and datatype."""
        NEIGHBOR_ALLTOALLW.blocking(self, sendbuf, recvbuf)().Wait()

    def Ineighbor_allgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Request:
        return NEIGHBOR_ALLGATHER.nonblocking(self, sendbuf, recvbuf)()

    def Ineighbor_allgatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Request:
        return NEIGHBOR_ALLGATHERV.nonblocking(self, sendbuf, recvbuf)()

    def Ineighbor_alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Request:
        return NEIGHBOR_ALLTOALL.nonblocking(self, sendbuf, recvbuf)()

    def Ineighbor_alltoallv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Request:
        return NEIGHBOR_ALLTOALLV.nonblocking(self, sendbuf, recvbuf)()

    def Ineighbor_alltoallw(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Request:
        return NEIGHBOR_ALLTOALLW.nonblocking(self, sendbuf, recvbuf)()

    def Neighbor_allgather_init(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, info: Info = INFO_NULL
    ) -> Prequest:
        return Prequest._persistent(
            NEIGHBOR_ALLGATHER.persistent(self, sendbuf, recvbuf)
        )

    def Neighbor_allgatherv_init(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, info: Info = INFO_NULL
    ) -> Prequest:
        return Prequest._persistent(
            NEIGHBOR_ALLGATHERV.persistent(self, sendbuf, recvbuf)
        )

    def Neighbor_alltoall_init(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, info: Info = INFO_NULL
    ) -> Prequest:
        return Prequest._persistent(
            NEIGHBOR_ALLTOALL.persistent(self, sendbuf, recvbuf)
        )

    def Neighbor_alltoallv_init(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, info: Info = INFO_NULL
    ) -> Prequest:
        return Prequest._persistent(
            NEIGHBOR_ALLTOALLV.persistent(self, sendbuf, recvbuf)
        )

    def Neighbor_alltoallw_init(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, info: Info = INFO_NULL
    ) -> Prequest:
        return Prequest._persistent(
            NEIGHBOR_ALLTOALLW.persistent(self, sendbuf, recvbuf)
        )

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
            raise ValueError(
                f"expecting {len(edges.destinations)} items, got {len(pieces)}"
            )

        got = self._complete(neighbors.exchange(self._live().rank, edges, pieces))

        return [None if piece is None else pickle.loads(piece) for piece in got]
