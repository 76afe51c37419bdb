"""Persistent collectives of communicators on buffers: ``Bcast_init``, ``Allreduce_init`` and so on.

Each reads its buffers once, as the blocking collective does (:mod:`.operation_table`). Every start
of the request starts the collective. Hints (``info``) have no effect.
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
from impi.rank.api.handles.info import INFO_NULL, Info
from impi.rank.api.p2p.request import Prequest
from impi.rank.api.types.ops import SUM, Op

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec


@guarded_collective()
class PersistentCollectives(BufferOperations):
    """The persistent collectives of every communicator."""

    def Barrier_init(self, info: Info = INFO_NULL) -> Prequest:
        return Prequest._persistent(BARRIER.persistent(self))

    def Bcast_init(
        self, buf: BufferSpec, root: int = 0, info: Info = INFO_NULL
    ) -> Prequest:
        return Prequest._persistent(BCAST.persistent(self, buf, root))

    def Gather_init(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        root: int = 0,
        info: Info = INFO_NULL,
    ) -> Prequest:
        return Prequest._persistent(GATHER.persistent(self, sendbuf, recvbuf, root))

    def Gatherv_init(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        root: int = 0,
        info: Info = INFO_NULL,
    ) -> Prequest:
        return Prequest._persistent(GATHERV.persistent(self, sendbuf, recvbuf, root))

    def Scatter_init(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        root: int = 0,
        info: Info = INFO_NULL,
    ) -> Prequest:
        return Prequest._persistent(SCATTER.persistent(self, sendbuf, recvbuf, root))

    def Scatterv_init(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        root: int = 0,
        info: Info = INFO_NULL,
    ) -> Prequest:
        return Prequest._persistent(SCATTERV.persistent(self, sendbuf, recvbuf, root))

    def Allgather_init(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, info: Info = INFO_NULL
    ) -> Prequest:
        return Prequest._persistent(ALLGATHER.persistent(self, sendbuf, recvbuf))

    def Allgatherv_init(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, info: Info = INFO_NULL
    ) -> Prequest:
        return Prequest._persistent(ALLGATHERV.persistent(self, sendbuf, recvbuf))

    def Alltoall_init(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, info: Info = INFO_NULL
    ) -> Prequest:
        return Prequest._persistent(ALLTOALL.persistent(self, sendbuf, recvbuf))

    def Alltoallv_init(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, info: Info = INFO_NULL
    ) -> Prequest:
        return Prequest._persistent(ALLTOALLV.persistent(self, sendbuf, recvbuf))

    def Alltoallw_init(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, info: Info = INFO_NULL
    ) -> Prequest:
        return Prequest._persistent(ALLTOALLW.persistent(self, sendbuf, recvbuf))

    def Reduce_init(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        op: Op = SUM,
        root: int = 0,
        info: Info = INFO_NULL,
    ) -> Prequest:
        return Prequest._persistent(REDUCE.persistent(self, sendbuf, recvbuf, op, root))

    def Allreduce_init(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        op: Op = SUM,
        info: Info = INFO_NULL,
    ) -> Prequest:
        return Prequest._persistent(ALLREDUCE.persistent(self, sendbuf, recvbuf, op))

    def Reduce_scatter_block_init(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        op: Op = SUM,
        info: Info = INFO_NULL,
    ) -> Prequest:
        return Prequest._persistent(
            REDUCE_SCATTER_BLOCK.persistent(self, sendbuf, recvbuf, op)
        )

    def Reduce_scatter_init(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
        info: Info = INFO_NULL,
    ) -> Prequest:
        return Prequest._persistent(
            REDUCE_SCATTER.persistent(self, sendbuf, recvbuf, recvcounts, op)
        )


@guarded_collective()
class PersistentScans(BufferOperations):
    """The persistent collectives that intracommunicators alone have."""

    def Scan_init(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        op: Op = SUM,
        info: Info = INFO_NULL,
    ) -> Prequest:
        return Prequest._persistent(SCAN.persistent(self, sendbuf, recvbuf, op))

    def Exscan_init(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        op: Op = SUM,
        info: Info = INFO_NULL,
    ) -> Prequest:
        return Prequest._persistent(EXSCAN.persistent(self, sendbuf, recvbuf, op))
