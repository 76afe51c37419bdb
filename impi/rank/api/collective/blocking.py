"""Blocking collectives of communicators on buffers: ``Bcast``, ``Allreduce`` and so on.

How it works: a call makes one look-up, in the strategy that its communicator got at its creation:
:data:`BY_MESSAGES`, or :class:`impi.rank.api.collective.client_local.ClientLocal` if one MPI
library runs all members. A strategy is a dictionary from operations to functions, so a short
collective costs no decision. Its entries are made at the first call, and have the guard that tells
other procs of a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from impi.rank.api.collective.on_buffers import OVER, BufferOperations
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
    Blocking,
    Collective,
    Strategy,
)
from impi.rank.api.handles.failing import wrapped
from impi.rank.api.handles.integers import integer
from impi.rank.api.types.ops import SUM, Op

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec


class _ByMessages(Strategy):
    """Each collective is started, and waited for."""

    def __missing__(self, operation: Collective) -> Blocking:
        def call(comm: Any, *args: BufferSpec) -> None:
            # ``blocking``: the operation may run to its end here, without the engine.
            request = operation.blocking(comm, *args)(blocking=True)
            if request is not OVER:
                request.Wait()

        call.__name__ = operation.name  # for the messages of its failures
        made: Blocking = wrapped(call, collective=True)
        self[operation] = made

        return made


BY_MESSAGES: Final[Strategy] = _ByMessages()
"""The algorithms of chapter 4, or ours between two groups."""


class _Null:
    """A null communicator's stand-in for its state: every operation raises."""

    strategy = BY_MESSAGES


class BlockingCollectives(BufferOperations):
    """The blocking collectives of every communicator."""

    _state: Any

    def Barrier(self) -> None:
        (self._state or _Null).strategy[BARRIER](self)

    def Bcast(self, buf: BufferSpec, root: int = 0) -> None:
        if type(root) is not int:
            root = integer(root)

        (self._state or _Null).strategy[BCAST](self, buf, root)

    def Gather(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        if type(root) is not int:
            root = integer(root)

        (self._state or _Null).strategy[GATHER](self, sendbuf, recvbuf, root)

    def Gatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        """Collect buffers of different lengths at the root, at given displacements."""
        if type(root) is not int:
            root = integer(root)

        (self._state or _Null).strategy[GATHERV](self, sendbuf, recvbuf, root)

    def Scatter(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        if type(root) is not int:
            root = integer(root)

        (self._state or _Null).strategy[SCATTER](self, sendbuf, recvbuf, root)

    def Scatterv(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        """Give each proc a part of the root's buffer, of its own length and displacement."""
        if type(root) is not int:
            root = integer(root)

        (self._state or _Null).strategy[SCATTERV](self, sendbuf, recvbuf, root)

    def Allgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        (self._state or _Null).strategy[ALLGATHER](self, sendbuf, recvbuf)

    def Allgatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Collect buffers of different lengths at every proc, at given displacements."""
        (self._state or _Null).strategy[ALLGATHERV](self, sendbuf, recvbuf)

    def Alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        (self._state or _Null).strategy[ALLTOALL](self, sendbuf, recvbuf)

    def Alltoallv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Exchange a part between each pair of procs, each of its own length and displacement."""
        (self._state or _Null).strategy[ALLTOALLV](self, sendbuf, recvbuf)

    def Alltoallw(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Exchange parts of their own length, displacement and datatype."""
        (self._state or _Null).strategy[ALLTOALLW](self, sendbuf, recvbuf)

    def Reduce(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM, root: int = 0
    ) -> None:
        if type(root) is not int:
            root = integer(root)

        (self._state or _Null).strategy[REDUCE](self, sendbuf, recvbuf, op, root)

    def Allreduce(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> None:
        (self._state or _Null).strategy[ALLREDUCE](self, sendbuf, recvbuf, op)

    def Reduce_scatter_block(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM
    ) -> None:
        """Combine all buffers element by element, then scatter equal blocks."""
        (self._state or _Null).strategy[REDUCE_SCATTER_BLOCK](
            self, sendbuf, recvbuf, op
        )

    def Reduce_scatter(
        self,
        sendbuf: BufferSpec,
        recvbuf: BufferSpec,
        recvcounts: Sequence[int] | None = None,
        op: Op = SUM,
    ) -> None:
        """Combine all buffers element by element, then scatter ``recvcounts`` elements."""
        (self._state or _Null).strategy[REDUCE_SCATTER](
            self, sendbuf, recvbuf, recvcounts, op
        )


class BlockingScans(BufferOperations):
    """The blocking collectives that intracommunicators alone have."""

    _state: Any

    def Scan(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> None:
        """Combine the buffers of rank 0 to the caller, element by element."""
        (self._state or _Null).strategy[SCAN](self, sendbuf, recvbuf, op)

    def Exscan(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> None:
        """Combine the buffers below the caller's rank, element by element; nothing at rank 0."""
        (self._state or _Null).strategy[EXSCAN](self, sendbuf, recvbuf, op)
