"""Blocking collectives that ask the library alone first (:mod:`impi.api.prompt`), where the communicator is inside one
client; else, and where anything is unusual, they are those of :mod:`impi.api.collective_blocking`.
"""

from __future__ import annotations

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
            if (state := self._state) is not None and (inside := state.inside) is not None and inside.barrier():
                return
        except (ImpiError, MPIException) as failure:
            self._failed(failure, "Barrier")
            raise
        super().Barrier()

    def Bcast(self, buf: Any, root: int = 0) -> None:
        """The root's buffer, everywhere."""
        try:
            if (state := self._state) is not None and (inside := state.inside) is not None and inside.bcast(buf, root):
                return
        except (ImpiError, MPIException) as failure:
            self._failed(failure, "Bcast")
            raise
        super().Bcast(buf, root)

    def Gather(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """Everybody's buffer, one after the other, at the root."""
        try:
            state = self._state
            if state is not None and (inside := state.inside) is not None and inside.gather(sendbuf, recvbuf, root):
                return
        except (ImpiError, MPIException) as failure:
            self._failed(failure, "Gather")
            raise
        super().Gather(sendbuf, recvbuf, root)

    def Scatter(self, sendbuf: Any, recvbuf: Any, root: int = 0) -> None:
        """One block of the root's buffer for everybody."""
        try:
            state = self._state
            if state is not None and (inside := state.inside) is not None and inside.scatter(sendbuf, recvbuf, root):
                return
        except (ImpiError, MPIException) as failure:
            self._failed(failure, "Scatter")
            raise
        super().Scatter(sendbuf, recvbuf, root)

    def Allgather(self, sendbuf: Any, recvbuf: Any) -> None:
        """Everybody's buffer, one after the other, everywhere."""
        try:
            state = self._state
            if state is not None and (inside := state.inside) is not None and inside.allgather(sendbuf, recvbuf):
                return
        except (ImpiError, MPIException) as failure:
            self._failed(failure, "Allgather")
            raise
        super().Allgather(sendbuf, recvbuf)

    def Alltoall(self, sendbuf: Any, recvbuf: Any) -> None:
        """A block of everybody's buffer for everybody."""
        try:
            state = self._state
            if state is not None and (inside := state.inside) is not None and inside.alltoall(sendbuf, recvbuf):
                return
        except (ImpiError, MPIException) as failure:
            self._failed(failure, "Alltoall")
            raise
        super().Alltoall(sendbuf, recvbuf)

    def Reduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM, root: int = 0) -> None:
        """All buffers combined element by element, at the root."""
        try:
            state = self._state
            if state is not None and (inside := state.inside) is not None and inside.reduce(sendbuf, recvbuf, op, root):
                return
        except (ImpiError, MPIException) as failure:
            self._failed(failure, "Reduce")
            raise
        super().Reduce(sendbuf, recvbuf, op, root)

    def Allreduce(self, sendbuf: Any, recvbuf: Any, op: Op = SUM) -> None:
        """All buffers combined element by element, everywhere."""
        try:
            state = self._state
            if state is not None and (inside := state.inside) is not None and inside.allreduce(sendbuf, recvbuf, op):
                return
        except (ImpiError, MPIException) as failure:
            self._failed(failure, "Allreduce")
            raise
        super().Allreduce(sendbuf, recvbuf, op)

    def _failed(self, failure: ImpiError | MPIException, call: str) -> None:
        failed(failure, self._state, call)
