"""Persistent collectives of communicators on buffers: ``Bcast_init``, ``Allreduce_init`` and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from impi.api.collective.on_buffers import BufferOperations
from impi.api.handles.failing import guarded_collective
from impi.api.handles.info import INFO_NULL, Info
from impi.api.p2p.request import Prequest
from impi.api.types.ops import SUM, Op

__all__ = ["PersistentCollectives", "PersistentScans"]


@guarded_collective()
class PersistentCollectives(BufferOperations):
    """Of every communicator; hints are not looked at."""

    def Barrier_init(self, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Barrier`."""
        return Prequest._persistent(self._barrier())

    def Bcast_init(self, buf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Bcast`."""
        return Prequest._persistent(self._bcast(buf, root))

    def Gather_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Gather`."""
        return Prequest._persistent(self._gather(sendbuf, recvbuf, root))

    def Gatherv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Gatherv`."""
        return Prequest._persistent(self._gatherv(sendbuf, recvbuf, root))

    def Scatter_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Scatter`."""
        return Prequest._persistent(self._scatter(sendbuf, recvbuf, root))

    def Scatterv_init(self, sendbuf: Any, recvbuf: Any, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Scatterv`."""
        return Prequest._persistent(self._scatterv(sendbuf, recvbuf, root))

    def Allgather_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Allgather`."""
        return Prequest._persistent(self._allgather(sendbuf, recvbuf))

    def Allgatherv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Allgatherv`."""
        return Prequest._persistent(self._allgatherv(sendbuf, recvbuf))

    def Alltoall_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Alltoall`."""
        return Prequest._persistent(self._alltoall(sendbuf, recvbuf))

    def Alltoallv_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Alltoallv`."""
        return Prequest._persistent(self._alltoallv(sendbuf, recvbuf))

    def Alltoallw_init(self, sendbuf: Any, recvbuf: Any, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Alltoallw`."""
        return Prequest._persistent(self._alltoallw(sendbuf, recvbuf))

    def Reduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Reduce`."""
        return Prequest._persistent(self._reduce(sendbuf, recvbuf, op, root))

    def Allreduce_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Allreduce`."""
        return Prequest._persistent(self._allreduce(sendbuf, recvbuf, op))

    def Reduce_scatter_block_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Reduce_scatter_block`."""
        return Prequest._persistent(self._reduce_scatter_block(sendbuf, recvbuf, op))

    def Reduce_scatter_init(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM, info: Info = INFO_NULL
    ) -> Prequest:
        """A persistent :meth:`Reduce_scatter`."""
        return Prequest._persistent(self._reduce_scatter(sendbuf, recvbuf, recvcounts, op))


@guarded_collective()
class PersistentScans(BufferOperations):
    """Of one group only; hints are not looked at."""

    def Scan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Scan`."""
        return Prequest._persistent(self._scan(sendbuf, recvbuf, op))

    def Exscan_init(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, info: Info = INFO_NULL) -> Prequest:
        """A persistent :meth:`Exscan`."""
        return Prequest._persistent(self._exscan(sendbuf, recvbuf, op))
