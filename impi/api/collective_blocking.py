"""Blocking collectives of communicators on buffers: ``Bcast``, ``Allreduce`` and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from impi.api.collective import BufferOperations
from impi.api.failing import guarded_collective
from impi.api.op import SUM, Op

__all__ = ["BlockingCollectives", "BlockingScans"]


@guarded_collective()
class BlockingCollectives(BufferOperations):
    """Of every communicator."""

    def Barrier(self) -> None:
        """Wait for all."""
        self._barrier()().Wait()

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """The root's buffer, everywhere."""
        self._bcast(buf, root)().Wait()

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Everybody's buffer, one after the other, at the root."""
        self._gather(sendbuf, recvbuf, root)().Wait()

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Everybody's buffer, each of its own length and at its own place, at the root."""
        self._gatherv(sendbuf, recvbuf, root)().Wait()

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """One block of the root's buffer for everybody."""
        self._scatter(sendbuf, recvbuf, root)().Wait()

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """One part of the root's buffer for everybody, each of its own length and from its own place."""
        self._scatterv(sendbuf, recvbuf, root)().Wait()

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Everybody's buffer, one after the other, everywhere."""
        self._allgather(sendbuf, recvbuf)().Wait()

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Everybody's buffer, each of its own length and at its own place, everywhere."""
        self._allgatherv(sendbuf, recvbuf)().Wait()

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """One block from everybody for everybody."""
        self._alltoall(sendbuf, recvbuf)().Wait()

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """One part from everybody for everybody, each of its own length and place."""
        self._alltoallv(sendbuf, recvbuf)().Wait()

    def Alltoallw(self, sendbuf: Any, recvbuf: Any) -> None:
        """One part from everybody for everybody, each of its own length, place and type."""
        self._alltoallw(sendbuf, recvbuf)().Wait()

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """All buffers combined element by element, at the root."""
        self._reduce(sendbuf, recvbuf, op, root)().Wait()

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """All buffers combined element by element, everywhere."""
        self._allreduce(sendbuf, recvbuf, op)().Wait()

    def Reduce_scatter_block(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """All buffers combined element by element, then scattered in equal blocks."""
        self._reduce_scatter_block(sendbuf, recvbuf, op)().Wait()

    def Reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM) -> None:
        """All buffers combined element by element, then scattered in blocks of ``recvcounts`` elements."""
        self._reduce_scatter(sendbuf, recvbuf, recvcounts, op)().Wait()


@guarded_collective()
class BlockingScans(BufferOperations):
    """Of one group only."""

    def Scan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """The buffers of ranks 0 to the caller's, combined element by element."""
        self._scan(sendbuf, recvbuf, op)().Wait()

    def Exscan(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """The buffers of the ranks below the caller's, combined element by element; nothing happens at rank 0."""
        self._exscan(sendbuf, recvbuf, op)().Wait()
