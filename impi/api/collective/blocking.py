"""Blocking collectives of communicators on buffers: ``Bcast``, ``Allreduce`` and so on.

How a communicator carries them out is its strategy, chosen when the communicator is made: :data:`BY_MESSAGES`, or
:class:`impi.api.collective.client_local.ClientLocal` where one MPI library runs all of its members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from impi.api.collective.on_buffers import BufferOperations
from impi.api.handles.failing import wrapped
from impi.api.types.ops import SUM, Op

if TYPE_CHECKING:
    from impi.api.types.specs import BufferSpec

__all__ = ["BY_MESSAGES", "BlockingCollectives", "BlockingScans", "Strategy"]

_Call = Callable[..., None]


class Strategy:
    """The blocking collectives of a communicator; the first argument is the communicator, the others are MPI's."""

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
    """The operation of :class:`BufferOperations`, started and waited for."""
    start = f"_{name.lower()}"

    def call(comm: Any, *args: BufferSpec) -> None:
        getattr(comm, start)(*args)().Wait()

    call.__name__ = name
    return wrapped(call, collective=True)  # type: ignore[no-any-return]


BY_MESSAGES: Final = Strategy()
"""The algorithms of chapter 4 between clients, or ours between two groups."""
for _name in Strategy.__annotations__:
    setattr(BY_MESSAGES, _name, _by_messages(_name))


class _Null:
    """What a null communicator has in place of its strategy: every operation says so."""

    strategy = BY_MESSAGES


class BlockingCollectives(BufferOperations):
    """The blocking collectives of every communicator."""

    _state: Any

    def Barrier(self) -> None:
        """Wait for all."""
        (self._state or _Null).strategy.Barrier(self)

    def Bcast(self, buf: BufferSpec, root: int = 0) -> None:
        """The root's buffer, everywhere."""
        (self._state or _Null).strategy.Bcast(self, buf, root)

    def Gather(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        """Everybody's buffer, one after the other, at the root."""
        (self._state or _Null).strategy.Gather(self, sendbuf, recvbuf, root)

    def Gatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        """Everybody's buffer, each of its own length and at its own place, at the root."""
        (self._state or _Null).strategy.Gatherv(self, sendbuf, recvbuf, root)

    def Scatter(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        """One block of the root's buffer for everybody."""
        (self._state or _Null).strategy.Scatter(self, sendbuf, recvbuf, root)

    def Scatterv(self, sendbuf: BufferSpec, recvbuf: BufferSpec, root: int = 0) -> None:
        """One part of the root's buffer for everybody, each of its own length and from its own place."""
        (self._state or _Null).strategy.Scatterv(self, sendbuf, recvbuf, root)

    def Allgather(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Everybody's buffer, one after the other, everywhere."""
        (self._state or _Null).strategy.Allgather(self, sendbuf, recvbuf)

    def Allgatherv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """Everybody's buffer, each of its own length and at its own place, everywhere."""
        (self._state or _Null).strategy.Allgatherv(self, sendbuf, recvbuf)

    def Alltoall(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """One block from everybody for everybody."""
        (self._state or _Null).strategy.Alltoall(self, sendbuf, recvbuf)

    def Alltoallv(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """One part from everybody for everybody, each of its own length and place."""
        (self._state or _Null).strategy.Alltoallv(self, sendbuf, recvbuf)

    def Alltoallw(self, sendbuf: BufferSpec, recvbuf: BufferSpec) -> None:
        """One part from everybody for everybody, each of its own length, place and type."""
        (self._state or _Null).strategy.Alltoallw(self, sendbuf, recvbuf)

    def Reduce(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM, root: int = 0) -> None:
        """All buffers combined element by element, at the root."""
        (self._state or _Null).strategy.Reduce(self, sendbuf, recvbuf, op, root)

    def Allreduce(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> None:
        """All buffers combined element by element, everywhere."""
        (self._state or _Null).strategy.Allreduce(self, sendbuf, recvbuf, op)

    def Reduce_scatter_block(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> None:
        """All buffers combined element by element, then scattered in equal blocks."""
        (self._state or _Null).strategy.Reduce_scatter_block(self, sendbuf, recvbuf, op)

    def Reduce_scatter(
        self, sendbuf: BufferSpec, recvbuf: BufferSpec, recvcounts: Sequence[int] | None = None, op: Op = SUM
    ) -> None:
        """All buffers combined element by element, then scattered in blocks of ``recvcounts`` elements."""
        (self._state or _Null).strategy.Reduce_scatter(self, sendbuf, recvbuf, recvcounts, op)


class BlockingScans(BufferOperations):
    """The blocking collectives of communicators with one group only."""

    _state: Any

    def Scan(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> None:
        """The buffers of ranks 0 to the caller's, combined element by element."""
        (self._state or _Null).strategy.Scan(self, sendbuf, recvbuf, op)

    def Exscan(self, sendbuf: BufferSpec, recvbuf: BufferSpec, op: Op = SUM) -> None:
        """The buffers of the ranks below the caller's, combined element by element; nothing happens at rank 0."""
        (self._state or _Null).strategy.Exscan(self, sendbuf, recvbuf, op)
