"""Buffered sends (MPI 3.6): the message is copied, so that the send is complete at once; the attached buffer
bounds the copies.
"""

from __future__ import annotations

from typing import Any

from impi.api import runtime
from impi.api.buffers import simple
from impi.api.constants import BSEND_OVERHEAD, BUFFER_AUTOMATIC
from impi.api.datatype import BYTE
from impi.api.request import Request
from impi.engine.context import Context
from impi.engine.operations import SendOperation
from impi.engine.payload import OctetSource, Source
from impi.semantics.errors import error

__all__ = ["Attach_buffer", "Detach_buffer", "Flush_buffer", "start"]


class _Attached:
    """The attached buffer. Our copies live in memory of our own; the buffer's size is what they may take."""

    def __init__(self) -> None:
        self.buffer: Any = None
        self.size: int | None = 0
        self.sending: list[tuple[SendOperation, int]] = []

    def used(self) -> int:
        """Octets of messages that are still on their way."""
        self.sending = [(operation, nbytes) for operation, nbytes in self.sending if not operation.done]
        return sum(nbytes for _, nbytes in self.sending)


_attached = _Attached()


def Attach_buffer(buf: Any) -> None:
    """Give memory for buffered sends; BUFFER_AUTOMATIC lets them take what they need."""
    if _attached.buffer is not None:
        raise error("ERR_BUFFER", "a buffer is attached already; detach it first")
    _attached.size = None if buf is BUFFER_AUTOMATIC else simple([buf, BYTE], readonly=False).count
    _attached.buffer = buf


def Detach_buffer() -> Any:
    """Wait until all buffered messages are sent, and take the buffer back."""
    if _attached.buffer is None:
        return None
    Flush_buffer()
    buf, _attached.buffer, _attached.size = _attached.buffer, None, 0
    return buf


def Flush_buffer() -> None:
    """Wait until all buffered messages are sent."""
    runtime.engine().wait(lambda: _attached.used() == 0 and not _attached.sending)


def start(context: Context, dest: int, tag: int, source: Source) -> Request:
    """Copy the message and send the copy; the request is complete at once."""
    engine = runtime.engine()
    external = dest not in context.shadow_of
    copy = OctetSource(bytes(source.octets(external=external)))
    copy.count = source.count
    nbytes = copy.octets(external=external).nbytes + BSEND_OVERHEAD
    if _attached.size is not None and _attached.used() + nbytes > _attached.size:
        engine.progress()
        if _attached.used() + nbytes > _attached.size:
            raise error(
                "ERR_BUFFER",
                f"a buffered send of {nbytes} bytes (with BSEND_OVERHEAD) does not fit: {_attached.used()} of the "
                f"{_attached.size} bytes attached are in use",
            )
    operation = engine.send(context, dest, tag, copy)
    if not operation.done:
        _attached.sending.append((operation, nbytes))
    return Request._of(_Copied())


class _Copied:
    """A buffered send is complete once it is copied."""

    done = True
    cancelled = False

    def advance(self) -> bool:
        """Nothing to do."""
        return True
