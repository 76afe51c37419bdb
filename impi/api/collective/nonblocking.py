"""Non-blocking collectives of communicators on buffers: ``Ibcast``, ``Iallreduce`` and so on.

Those of one communicator run one after another, in the order in which they were started.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from impi.api.collective.on_buffers import BufferOperations
from impi.api.handles.failing import guarded_collective
from impi.api.p2p.request import Request
from impi.api.types.ops import SUM, Op

__all__ = ["NonblockingCollectives", "NonblockingScans"]


@guarded_collective()
class NonblockingCollectives(BufferOperations):
    """Of every communicator."""

    def Ibarrier(self) -> Request:
        """Start :meth:`Barrier`."""
        return self._barrier()()

    def Ibcast(self, buf: Any, root: int = 0) -> Request:
        """Start :meth:`Bcast`."""
        return self._bcast(buf, root)()

    def Igather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Start :meth:`Gather`."""
        return self._gather(sendbuf, recvbuf, root)()

    def Igatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Start :meth:`Gatherv`."""
        return self._gatherv(sendbuf, recvbuf, root)()

    def Iscatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Start :meth:`Scatter`."""
        return self._scatter(sendbuf, recvbuf, root)()

    def Iscatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> Request:
        """Start :meth:`Scatterv`."""
        return self._scatterv(sendbuf, recvbuf, root)()

    def Iallgather(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start :meth:`Allgather`."""
        return self._allgather(sendbuf, recvbuf)()

    def Iallgatherv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start :meth:`Allgatherv`."""
        return self._allgatherv(sendbuf, recvbuf)()

    def Ialltoall(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start :meth:`Alltoall`."""
        return self._alltoall(sendbuf, recvbuf)()

    def Ialltoallv(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start :meth:`Alltoallv`."""
        return self._alltoallv(sendbuf, recvbuf)()

    def Ialltoallw(self, sendbuf: Any, recvbuf: Any) -> Request:
        """Start :meth:`Alltoallw`."""
        return self._alltoallw(sendbuf, recvbuf)()

    def Ireduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> Request:
        """Start :meth:`Reduce`."""
        return self._reduce(sendbuf, recvbuf, op, root)()

    def Iallreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Start :meth:`Allreduce`."""
        return self._allreduce(sendbuf, recvbuf, op)()

    def Ireduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Start :meth:`Reduce_scatter_block`."""
        return self._reduce_scatter_block(sendbuf, recvbuf, op)()

    def Ireduce_scatter(
        self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> Request:
        """Start :meth:`Reduce_scatter`."""
        return self._reduce_scatter(sendbuf, recvbuf, recvcounts, op)()


@guarded_collective()
class NonblockingScans(BufferOperations):
    """Of one group only."""

    def Iscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Start :meth:`Scan`."""
        return self._scan(sendbuf, recvbuf, op)()

    def Iexscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> Request:
        """Start :meth:`Exscan`."""
        return self._exscan(sendbuf, recvbuf, op)()
