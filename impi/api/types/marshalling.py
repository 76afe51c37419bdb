"""Sources and targets of the engine for user buffers, and their packed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from impi.api import runtime
from impi.api.types.buffers import UserBuffer
from impi.engine.payload import BufferSource, BufferTarget, OctetSource
from impi.records import replaced
from impi.semantics.datatype import TypeMap


def long_size() -> int:
    """Return the octets of MPI_LONG on the wire in this job: 4 or 8."""
    return runtime.engine().job.long_size


def wire_type(message: UserBuffer) -> TypeMap:
    """Return the type map of a buffer's elements."""
    return message.wire_type(strict=long_size() == 4)


def source(message: UserBuffer) -> BufferSource:
    """Return the buffer as a source."""
    return BufferSource(wire_type(message), message.view, message.offset, message.count, long_size())


def target(message: UserBuffer) -> BufferTarget:
    """Return the buffer as a target."""
    return BufferTarget(wire_type(message), message.view, message.offset, message.count, long_size())


def targets(message: UserBuffer) -> Callable[[], BufferTarget]:
    """Return what makes targets of the buffer, even once its datatype is freed."""
    arguments = (wire_type(message), message.view, message.offset, message.count, long_size())
    return lambda: BufferTarget(*arguments)


# ``external``: whether octets are external32; None: the form between clients.


def packed(message: UserBuffer, external: bool | None = None) -> memoryview:
    """Return the elements as octets; aliases the buffer if nothing needs conversion."""
    return source(message).octets(external=runtime.engine().external if external is None else external)


def packed_size(message: UserBuffer, external: bool | None = None) -> int:
    """Return the octets of :func:`packed`."""
    external = runtime.engine().external if external is None else external
    return wire_type(message).packed_size(message.count, external=external, long_size=long_size())


def unpack(message: UserBuffer, octets: Any, external: bool | None = None) -> None:
    """Unpack octets in the form of :func:`packed` into the buffer.

    Raises:
        Exception: ERR_TRUNCATE: they do not fit.
    """
    external = runtime.engine().external if external is None else external
    wire_type(message).unpack(
        memoryview(octets), message.view, message.offset, message.count, external=external, long_size=long_size()
    )


def snapshot(message: UserBuffer, into: UserBuffer, external: bool | None = None) -> memoryview:
    """Return packed octets that do not change when ``into`` is written, even if it overlaps."""
    octets = packed(message, external)
    aliases = message.view is into.view or octets.obj is message.view.obj
    return memoryview(bytes(octets)) if aliases else octets


def frozen(message: UserBuffer, *, external: bool) -> OctetSource:
    """Return a copy of the elements as a source."""
    copy = OctetSource(bytes(source(message).octets(external=external)))
    copy.count = message.count
    return copy


def resized(message: UserBuffer, count: int) -> UserBuffer:
    """Return the first ``count`` elements of a buffer."""
    return replaced(message, count=count)
