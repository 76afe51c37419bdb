"""Non-blocking collectives of communicators on buffers: ``Ibcast``, ``Iallreduce`` and so on.

Each reads its buffers as the blocking collective does (:mod:`.operation_table`) and starts it. The
operations of one communicator run in the order of their start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from impi.rank.api.collective.on_buffers import BufferOperations
from impi.rank.api.collective.operation_table import (
    ALLGATHER,
    ALLGATHERV,
    ALLREDUCE,
    ALLTOALL,
    ALLTOALLV,
    ALLTOALLW,
    BARRIER,
    BCAST,
    EXSCAN,
    GATHER,
    GATHERV,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    SCATTER,
    SCATTERV,
)
from impi.rank.api.handles.failing import guarded_collective
from impi.rank.api.p2p.request import Request
from impi.rank.api.types.ops import SUM, Op

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec


@guarded_collective()
class NonblockingCollectives(BufferOperations):
    """The non-blocking collectives of every communicator."""

    def Ibarrier(self) -> Request:
        return BARRIER.nonblocking(self)()

    def Ibcast(self, buf: BufferSpec, root: int = 0) -> Request:
        return BCAST.nonblocking(self, buf, root)()

    def Igather(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0
    ) -> Request:
        return GATHER.nonblocking(self, sendbuf, recvbuf, root)()

    def Igatherv(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0
    ) -> Request:
        return GATHERV.nonblocking(self, sendbuf, recvbuf, root)()

    def Iscatter(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0
    ) -> Request:
        return SCATTER.nonblocking(self, sendbuf, recvbuf, root)()

    def Iscatterv(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0
    ) -> Request:
        return SCATTERV.nonblocking(self, sendbuf, recvbuf, root)()

    def Iallgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Request:
        return ALLGATHER.nonblocking(self, sendbuf, recvbuf)()

    def Iallgatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Request:
        return ALLGATHERV.nonblocking(self, sendbuf, recvbuf)()

    def Ialltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Request:
        return ALLTOALL.nonblocking(self, sendbuf, recvbuf)()

    def Ialltoallv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Request:
        return ALLTOALLV.nonblocking(self, sendbuf, recvbuf)()

    def Ialltoallw(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> Request:
        return ALLTOALLW.nonblocking(self, sendbuf, recvbuf)()

    def Ireduce(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM, root: int = 0
    ) -> Request:
        return REDUCE.nonblocking(self, sendbuf, recvbuf, op, root)()

    def Iallreduce(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM
    ) -> Request:
        return ALLREDUCE.nonblocking(self, sendbuf, recvbuf, op)()

    def Ireduce_scatter_block(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM
    ) -> Request:
        return REDUCE_SCATTER_BLOCK.nonblocking(self, sendbuf, recvbuf, op)()

    def Ireduce_scatter(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
    ) -> Request:
        return REDUCE_SCATTER.nonblocking(self, sendbuf, recvbuf, recvcounts, op)()


@guarded_collective()
class NonblockingScans(BufferOperations):
    """The non-blocking collectives that intracommunicators alone have."""

    def Iscan(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> Request:
        return SCAN.nonblocking(self, sendbuf, recvbuf, op)()

    def Iexscan(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM
    ) -> Request:
        return EXSCAN.nonblocking(self, sendbuf, recvbuf, op)()
