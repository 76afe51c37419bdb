"""Buffered sends (MPI 3.6), complete at once: copies, bounded by the attached buffer.

The attached memory itself is never used: copies are Python's own. Its size bounds them, as programs
and tests rely on the error beyond it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from impi.protocol.semantics.errors import error
from impi.rank.api import runtime
from impi.rank.api.constants import BSEND_OVERHEAD, BUFFER_AUTOMATIC
from impi.rank.api.handles.failing import guarded, guarded_function
from impi.rank.api.p2p.request import Request
from impi.rank.api.types.buffers import read_buffer
from impi.rank.api.types.datatypes import BYTE
from impi.rank.engine.channels.payload import OctetSource, Source
from impi.rank.engine.context import Context
from impi.rank.engine.operations import SENT, SendOperation

if TYPE_CHECKING:
    from impi.rank.api.types.specs import BufferSpec


class Attached:
    """The buffer of a communicator, session or process (MPI 4.1, 3.6.1): it bounds our copies."""

    def __init__(self) -> None:
        self.buffer: Any = None
        self.size: int | None = 0
        self.sending: list[tuple[SendOperation, int]] = []
        self.beyond: Attached | None = None
        """The session's buffer, for a communicator of a session."""

    def chosen(self) -> Attached:
        """Return the buffer of a send: the communicator's, or its session's, or the process's."""
        if self.buffer is not None:
            return self

        return _attached if self.beyond is None else self.beyond

    def used(self) -> int:
        for row in [row for row in self.sending if row[0].done]:
            with suppress(ValueError):  # another thread has removed it
                self.sending.remove(row)

        return sum(nbytes for _, nbytes in list(self.sending))

    def attach(self, buf: BufferSpec) -> None:
        if self.buffer is not None:
            raise error("ERR_BUFFER", "a buffer is attached already; detach it first")

        self.size = (
            None
            if buf is BUFFER_AUTOMATIC
            else read_buffer([buf, BYTE], readonly=False).count
        )
        self.buffer = buf

    def detach(self) -> Any:
        if self.buffer is None:
            return None

        # The memory is the program's again, so no message may count on its room.
        self.flush().Wait()
        buf, self.buffer, self.size = self.buffer, None, 0

        return buf

    def flush(self) -> Request:
        operation = _Flush(self)
        if not operation.advance():
            runtime.engine().turns.track(operation)

        return Request._of(operation)


@guarded
class BufferedSends:
    """The buffer of a communicator or session for buffered sends (MPI 4.1, 3.6)."""

    @property
    def _attached(self) -> Attached:
        raise NotImplementedError

    def Attach_buffer(self, buf: BufferSpec) -> None:
        """Attach memory for buffered sends; BUFFER_AUTOMATIC: without a bound."""
        self._attached.attach(buf)

    def Detach_buffer(self) -> Any:
        return self._attached.detach()

    def Flush_buffer(self) -> None:
        self._attached.flush().Wait()

    def Iflush_buffer(self) -> Request:
        return self._attached.flush()


_attached = Attached()


@guarded_function
def Attach_buffer(buf: BufferSpec) -> None:
    """Attach memory for buffered sends; BUFFER_AUTOMATIC: without a bound."""
    _attached.attach(buf)


@guarded_function
def Detach_buffer() -> Any:
    """Wait until all buffered messages are sent; detach and return the buffer."""
    return _attached.detach()


@guarded_function
def Flush_buffer() -> None:
    """Wait until all buffered messages are sent."""
    _attached.flush().Wait()


@guarded_function
def Iflush_buffer() -> Request:
    """Return a request that is complete once all buffered messages are sent."""
    return _attached.flush()


def start(
    context: Context, own: Attached, dest: int, tag: int, source: Source
) -> Request:
    """Send a copy of the message; complete at once. ``own``: the communicator's buffer."""

    engine = runtime.engine()
    attached = own.chosen()
    external = engine.is_external(context, dest)
    # In the form in which it travels: the copy is due anyway, and nothing is left to convert.
    copy = OctetSource(bytes(source.octets(external=external)))
    copy.count = source.count

    # MPI 4.1, 3.6.1: a message takes its size and MPI_BSEND_OVERHEAD of the buffer.
    nbytes = copy.octets(external=external).nbytes + BSEND_OVERHEAD
    # A turn before the error: sends under way may have ended without the program's help.
    if attached.size is not None and attached.used() + nbytes > attached.size:
        engine.turns.progress()
        if attached.used() + nbytes > attached.size:
            raise error(
                "ERR_BUFFER",
                f"a buffered send of {nbytes} bytes (with BSEND_OVERHEAD) does not fit: {attached.used()} of the "
                f"{attached.size} bytes attached are in use",
            )

    operation = engine.send(context, dest, tag, copy)
    if not operation.done:
        attached.sending.append((operation, nbytes))

    return Request._of(SENT)  # complete once it is copied


class _Flush:
    """Done when no message of a buffer is under way."""

    cancelled = False

    def __init__(self, attached: Attached) -> None:
        self._attached = attached
        self.done = False

    def advance(self) -> bool:
        self.done = self.done or (
            self._attached.used() == 0 and not self._attached.sending
        )
        return self.done
