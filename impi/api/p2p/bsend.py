"""Buffered sends (MPI 3.6): the message is copied, so that the send is complete at once; the attached buffer
bounds the copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from impi.api import runtime
from impi.api.constants import BSEND_OVERHEAD, BUFFER_AUTOMATIC
from impi.api.handles.failing import guarded_function
from impi.api.p2p.request import Request
from impi.api.types.buffers import read_buffer
from impi.api.types.datatypes import BYTE
from impi.engine.context import Context
from impi.engine.operations import SendOperation
from impi.engine.payload import OctetSource, Source
from impi.semantics.errors import error

if TYPE_CHECKING:
    from impi.api.types.specs import BufferSpec

__all__ = ["Attach_buffer", "Attached", "Detach_buffer", "Flush_buffer", "Iflush_buffer", "start"]


class Attached:
    """The buffer that is attached to a communicator, a session, or to all (MPI 4.1, 3.6.1).

    Our copies live in memory of our own; the buffer's size is what they may take.
    """

    def __init__(self) -> None:
        self.buffer: Any = None
        self.size: int | None = 0
        self.sending: list[tuple[SendOperation, int]] = []
        self.beyond: Attached | None = None
        """Of a communicator that comes from a session: the session's."""

    def chosen(self) -> Attached:
        """The one that a send of the communicator uses: its own if it has one, else its session's, else that of all."""
        if self.buffer is not None:
            return self
        return _attached if self.beyond is None else self.beyond

    def used(self) -> int:
        """Octets of messages that are still on their way."""
        self.sending = [(operation, nbytes) for operation, nbytes in self.sending if not operation.done]
        return sum(nbytes for _, nbytes in self.sending)

    def attach(self, buf: BufferSpec) -> None:
        """Give memory; BUFFER_AUTOMATIC lets the copies take what they need."""
        if self.buffer is not None:
            raise error("ERR_BUFFER", "a buffer is attached already; detach it first")
        self.size = None if buf is BUFFER_AUTOMATIC else read_buffer([buf, BYTE], readonly=False).count
        self.buffer = buf

    def detach(self) -> Any:
        """Wait until all its messages are sent, and take it back; None if there was none."""
        if self.buffer is None:
            return None
        self.flush().Wait()
        buf, self.buffer, self.size = self.buffer, None, 0
        return buf

    def flush(self) -> Request:
        """A request that is complete once all its messages are sent."""
        operation = _Flush(self)
        if not operation.advance():
            runtime.engine().track(operation)
        return Request._of(operation)


_attached = Attached()


@guarded_function
def Attach_buffer(buf: BufferSpec) -> None:
    """Give memory for buffered sends; BUFFER_AUTOMATIC lets them take what they need."""
    _attached.attach(buf)


@guarded_function
def Detach_buffer() -> Any:
    """Wait until all buffered messages are sent, and take the buffer back."""
    return _attached.detach()


@guarded_function
def Flush_buffer() -> None:
    """Wait until all buffered messages are sent."""
    _attached.flush().Wait()


@guarded_function
def Iflush_buffer() -> Request:
    """A request that is complete once all buffered messages are sent."""
    return _attached.flush()


def start(context: Context, own: Attached, dest: int, tag: int, source: Source) -> Request:
    """Copy the message and send the copy; the request is complete at once. ``own``: the communicator's buffer."""
    engine = runtime.engine()
    attached = own.chosen()
    external = engine.is_external(context, dest)
    copy = OctetSource(bytes(source.octets(external=external)))
    copy.count = source.count
    nbytes = copy.octets(external=external).nbytes + BSEND_OVERHEAD
    if attached.size is not None and attached.used() + nbytes > attached.size:
        engine.progress()
        if attached.used() + nbytes > attached.size:
            raise error(
                "ERR_BUFFER",
                f"a buffered send of {nbytes} bytes (with BSEND_OVERHEAD) does not fit: {attached.used()} of the "
                f"{attached.size} bytes attached are in use",
            )
    operation = engine.send(context, dest, tag, copy)
    if not operation.done:
        attached.sending.append((operation, nbytes))
    return Request._of(_Copied())


class _Flush:
    """Done when no message of a buffer is on its way."""

    cancelled = False

    def __init__(self, attached: Attached) -> None:
        self._attached = attached
        self.done = False

    def advance(self) -> bool:
        """Look at the messages."""
        self.done = self.done or (self._attached.used() == 0 and not self._attached.sending)
        return self.done


class _Copied:
    """A buffered send is complete once it is copied."""

    done = True
    cancelled = False

    def advance(self) -> bool:
        """Nothing to do."""
        return True
