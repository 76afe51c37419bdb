"""Blocking collectives that ask the library alone first (:mod:`impi.api.prompt`), where the communicator is inside one
client; else, and where anything is unusual, they are those of :mod:`impi.api.collective_blocking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from impi.api.collective_blocking import BlockingCollectives
from impi.api.failing import failed
from impi.api.op import SUM, Op
from impi.errors import ImpiError
from impi.semantics.errors import MPIException

if TYPE_CHECKING:
    from impi.api.communicator import Communicator

__all__ = ["PromptCollectives"]


class PromptCollectives(BlockingCollectives):
    """Not guarded, for a guard would cost more than the call: what fails here goes to :meth:`_failed`."""

    _state: Communicator | None

    def Barrier(self) -> None:
        """Wait for all."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.barrier()
            ):
                return
        except Exception as failure:
            self._failed(failure, "Barrier")
            raise
        super().Barrier()

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """The root's buffer, everywhere."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.bcast(buf, root)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Bcast")
            raise
        super().Bcast(buf, root)

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Everybody's buffer, one after the other, at the root."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.gather(sendbuf, recvbuf, root)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Gather")
            raise
        super().Gather(sendbuf, recvbuf, root)

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """One block of the root's buffer for everybody."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.scatter(sendbuf, recvbuf, root)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Scatter")
            raise
        super().Scatter(sendbuf, recvbuf, root)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Everybody's buffer, one after the other, everywhere."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.allgather(sendbuf, recvbuf)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Allgather")
            raise
        super().Allgather(sendbuf, recvbuf)

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """A block of everybody's buffer for everybody."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.alltoall(sendbuf, recvbuf)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Alltoall")
            raise
        super().Alltoall(sendbuf, recvbuf)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """All buffers combined element by element, at the root."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.reduce(sendbuf, recvbuf, op, root)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Reduce")
            raise
        super().Reduce(sendbuf, recvbuf, op, root)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """All buffers combined element by element, everywhere."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.allreduce(sendbuf, recvbuf, op)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Allreduce")
            raise
        super().Allreduce(sendbuf, recvbuf, op)

    def Gatherv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Everybody's buffer, each of its own length and at its own place, at the root."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.gatherv(sendbuf, recvbuf, root)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Gatherv")
            raise
        super().Gatherv(sendbuf, recvbuf, root)

    def Scatterv(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """One part of the root's buffer for everybody, each of its own length and from its own place."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.scatterv(sendbuf, recvbuf, root)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Scatterv")
            raise
        super().Scatterv(sendbuf, recvbuf, root)

    def Allgatherv(self, sendbuf: Any, recvbuf: Any) -> None:
        """Everybody's buffer, each of its own length and at its own place, everywhere."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.allgatherv(sendbuf, recvbuf)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Allgatherv")
            raise
        super().Allgatherv(sendbuf, recvbuf)

    def Alltoallv(self, sendbuf: Any, recvbuf: Any) -> None:
        """A part of everybody's buffer for everybody, each of its own length."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.alltoallv(sendbuf, recvbuf)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Alltoallv")
            raise
        super().Alltoallv(sendbuf, recvbuf)

    def Reduce_scatter(self, sendbuf: Any, recvbuf: Any, recvcounts: Sequence[int] | None = None, op: Op = SUM) -> None:
        """All buffers combined element by element, then scattered in blocks of ``recvcounts`` elements."""
        try:
            if (
                (state := self._state) is not None
                and (context := state.context) is not None
                and (inside := context.inside) is not None
                and inside.reduce_scatter(sendbuf, recvbuf, recvcounts, op)
            ):
                return
        except Exception as failure:
            self._failed(failure, "Reduce_scatter")
            raise
        super().Reduce_scatter(sendbuf, recvbuf, recvcounts, op)

    def _failed(self, failure: Exception, call: str) -> None:
        state = self._state
        context = None if state is None else state.context
        if context is not None and context.inside is not None and isinstance(failure, context.inside.failure):
            inside = context.inside
            found = inside.translated(failure)
            if call in inside.agreed:
                context.faults.abandon(call, found)  # the others have begun it
            failed(found, state, call)
            raise found from None
        if isinstance(failure, ImpiError | MPIException):
            failed(failure, state, call)
