"""Message: taken off the queue by a matched probe, as mpi4py's class of the same name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

from impi.protocol.semantics.constants import ANY_SOURCE, ANY_TAG
from impi.protocol.semantics.errors import error
from impi.rank.api import runtime
from impi.rank.api.handles.failing import guarded
from impi.rank.api.handles.handle import Handle, State
from impi.rank.api.p2p.request import Request, load, null_receive
from impi.rank.api.p2p.status import Status
from impi.rank.api.types import marshalling
from impi.rank.api.types.buffers import read_buffer
from impi.rank.engine.channels.payload import OctetTarget, Target
from impi.rank.engine.context import Context
from impi.rank.engine.operations import TakenMessage as Envelope

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec

__all__ = ["MESSAGE_NO_PROC", "MESSAGE_NULL", "Message"]


class _Matched(State):
    """A message off the queue; without an envelope, of MPI_PROC_NULL."""

    __slots__ = ("context", "envelope")

    def __init__(self, envelope: Envelope | None, context: Context | None) -> None:
        super().__init__()
        self.envelope = envelope
        self.context = context


@guarded
class Message(Handle):
    """A message taken off the queue by a matched probe."""

    _state: _Matched | None

    @classmethod
    def _of(cls, envelope: Envelope, context: Context) -> Self:
        return cls._wrap(_Matched(envelope, context))

    @classmethod
    def Probe(
        cls,
        comm: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Self:
        return cls(comm.Mprobe(source, tag, status))

    @classmethod
    def Iprobe(
        cls,
        comm: Any,
        source: int = ANY_SOURCE,
        tag: int = ANY_TAG,
        status: Status | None = None,
    ) -> Self | None:
        message = comm.Improbe(source, tag, status)
        return None if message is None else cls(message)

    probe = Probe
    iprobe = Iprobe

    def Recv(self, buf: BufferSpec, status: Status | None = None) -> None:
        self.Irecv(buf).Wait(status)

    def Irecv(self, buf: BufferSpec) -> Request:
        if self._from_proc_null():
            return null_receive()

        message = read_buffer(buf, readonly=False)
        return self._receive(marshalling.target(message), None, message)

    def recv(self, status: Status | None = None) -> Any:
        return self.irecv().wait(status)

    def irecv(self) -> Request:
        if self._from_proc_null():
            return null_receive()

        target = OctetTarget()
        return self._receive(target, lambda: load(target.data), None)

    def _from_proc_null(self) -> bool:
        if self._state is None or self._state.envelope is not None:
            return False

        self._forget()
        return True

    def _receive(
        self, target: Target, value: Callable[[], Any] | None, keep: Any
    ) -> Request:
        state = self._state
        if state is None or state.envelope is None or state.context is None:
            raise error("ERR_REQUEST", "null message")

        # A message is received once: its handle is null from now on (MPI 4.1, 3.8.3).
        self._forget()

        return Request._of(
            runtime.engine().receive_message(state.context, state.envelope, target),
            value,
            keep,
        )


MESSAGE_NULL: Final = Message._define("MESSAGE_NULL", None)
MESSAGE_NO_PROC: Final = Message._define("MESSAGE_NO_PROC", _Matched(None, None))
