"""Blocking collectives of communicators on buffers: ``Bcast``, ``Allreduce`` and so on.

A communicator's strategy, chosen at its creation, runs them: :data:`BY_MESSAGES`, or
:class:`impi.api.collective.client_local.ClientLocal` if one MPI library runs all members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from impi.api.collective.on_buffers import BufferOperations
from impi.api.handles.failing import wrapped
from impi.api.handles.integers import integer
from impi.api.types.ops import SUM, Op

if TYPE_CHECKING:
    from impi.api.types.specs import BufferSpec


_Call = Callable[..., None]


class Strategy:
    """The blocking collectives of a communicator, called with it and MPI's arguments."""

    Barrier: _Call
    Bcast: _Call
    Gather: _Call
    Gatherv: _Call
    Scatter: _Call
    Scatterv: _Call
    Allgather: _Call
    Allgatherv: _Call
    Alltoall: _Call
    Alltoallv: _Call
    Alltoallw: _Call
    Reduce: _Call
    Allreduce: _Call
    Reduce_scatter_block: _Call
    Reduce_scatter: _Call
    Scan: _Call
    Exscan: _Call


def _by_messages(name: str) -> _Call:
    """Return the operation of :class:`BufferOperations`, started and waited for."""
    start = f"_{name.lower()}"

    def call(comm: Any, *args: BufferSpec) -> None:
        getattr(comm, start)(*args)().Wait()

    call.__name__ = name
    return wrapped(call, collective=True)  # type: ignore[no-any-return]


BY_MESSAGES: Final = Strategy()
"""The algorithms of chapter 4, or ours between two groups."""
for _name in Strategy.__annotations__:
    setattr(BY_MESSAGES, _name, _by_messages(_name))


class _Null:
    """A null communicator's stand-in for its state: every operation raises."""

    strategy = BY_MESSAGES


class BlockingCollectives(BufferOperations):
    """The blocking collectives of every communicator."""

    _state: Any

    def Barrier(self) -> None:
        """Wait until all procs are in the barrier."""
        (self._state or _Null).strategy.Barrier(self)

    def Bcast(self, buf: BufferSpec, root: int = 0) -> None:
        """Copy the root's buffer to all procs."""
        if type(root) is not int:
            root = integer(root)
        (self._state or _Null).strategy.Bcast(self, buf, root)

    def Gather(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        """Collect the buffers of all procs at the root, in rank order."""
        if type(root) is not int:
            root = integer(root)
        (self._state or _Null).strategy.Gather(self, sendbuf, recvbuf, root)

    def Gatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        """Collect buffers of different lengths at the root, at given displacements."""
        if type(root) is not int:
            root = integer(root)
        (self._state or _Null).strategy.Gatherv(self, sendbuf, recvbuf, root)

    def Scatter(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        """Give each proc a block of the root's buffer."""
        if type(root) is not int:
            root = integer(root)
        (self._state or _Null).strategy.Scatter(self, sendbuf, recvbuf, root)

    def Scatterv(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        """Give each proc a part of the root's buffer, of its own length and displacement."""
        if type(root) is not int:
            root = integer(root)
        (self._state or _Null).strategy.Scatterv(self, sendbuf, recvbuf, root)

    def Allgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Collect the buffers of all procs at every proc, in rank order."""
        (self._state or _Null).strategy.Allgather(self, sendbuf, recvbuf)

    def Allgatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Collect buffers of different lengths at every proc, at given displacements."""
        (self._state or _Null).strategy.Allgatherv(self, sendbuf, recvbuf)

    def Alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Exchange a block between each pair of procs."""
        (self._state or _Null).strategy.Alltoall(self, sendbuf, recvbuf)

    def Alltoallv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Exchange a part between each pair of procs, each of its own length and displacement."""
        (self._state or _Null).strategy.Alltoallv(self, sendbuf, recvbuf)

    def Alltoallw(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Exchange parts of their own length, displacement and datatype."""
        (self._state or _Null).strategy.Alltoallw(self, sendbuf, recvbuf)

    def Reduce(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM, root: int = 0) -> None:
        """Combine all buffers element by element at the root."""
        if type(root) is not int:
            root = integer(root)
        (self._state or _Null).strategy.Reduce(self, sendbuf, recvbuf, op, root)

    def Allreduce(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> None:
        """Combine all buffers element by element at every proc."""
        (self._state or _Null).strategy.Allreduce(self, sendbuf, recvbuf, op)

    def Reduce_scatter_block(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> None:
        """Combine all buffers element by element, then scatter equal blocks."""
        (self._state or _Null).strategy.Reduce_scatter_block(self, sendbuf, recvbuf, op)

    def Reduce_scatter(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> None:
        """Combine all buffers element by element, then scatter ``recvcounts`` elements."""
        (self._state or _Null).strategy.Reduce_scatter(self, sendbuf, recvbuf, recvcounts, op)


class BlockingScans(BufferOperations):
    """The blocking collectives that intracommunicators alone have."""

    _state: Any

    def Scan(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> None:
        """Combine the buffers of rank 0 to the caller, element by element."""
        (self._state or _Null).strategy.Scan(self, sendbuf, recvbuf, op)

    def Exscan(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> None:
        """Combine the buffers below the caller's rank, element by element; nothing at rank 0."""
        (self._state or _Null).strategy.Exscan(self, sendbuf, recvbuf, op)
