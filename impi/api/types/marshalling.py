"""Between a user's buffer and the engine: what is sent of it, what is received into it, in which form."""

from __future__ import annotations

from typing import Any

from impi.api import runtime
from impi.api.types.buffers import UserBuffer
from impi.engine.payload import BufferSource, BufferTarget, OctetSource
from impi.records import replaced
from impi.semantics.datatype import TypeMap

__all__ = [
    "long_size",
    "packed",
    "packed_size",
    "resized",
    "snapshot",
    "source",
    "target",
    "unpack",
    "wire_type",
]


def long_size() -> int:
    """Octets of MPI_LONG on the wire in this job: 4 or 8."""
    return runtime.engine().long_size


def wire_type(message: UserBuffer) -> TypeMap:
    """The type map of a buffer's elements."""
    return message.wire_type(strict=long_size() == 4)


def source(message: UserBuffer) -> BufferSource:
    """The buffer as something to send."""
    return BufferSource(wire_type(message), message.view, message.offset, message.count, long_size())


def target(message: UserBuffer) -> BufferTarget:
    """The buffer as a place to receive into."""
    return BufferTarget(wire_type(message), message.view, message.offset, message.count, long_size())


# ``external``: whether the octets are external32; None is what clients send each other.


def packed(message: UserBuffer, external: bool | None = None) -> memoryview:
    """The buffer's elements as octets; an alias of the buffer where they are that already."""
    return source(message).octets(external=runtime.engine().external if external is None else external)


def packed_size(message: UserBuffer, external: bool | None = None) -> int:
    """Octets of :func:`packed`."""
    external = runtime.engine().external if external is None else external
    return wire_type(message).packed_size(message.count, external=external, long_size=long_size())


def unpack(message: UserBuffer, octets: Any, external: bool | None = None) -> None:
    """Put octets of the form of :func:`packed` into the buffer.

    Raises:
        Exception: ERR_TRUNCATE, they do not fit.
    """
    external = runtime.engine().external if external is None else external
    wire_type(message).unpack(
        memoryview(octets), message.view, message.offset, message.count, external=external, long_size=long_size()
    )


def snapshot(message: UserBuffer, into: UserBuffer, external: bool | None = None) -> memoryview:
    """Packed octets that stay what they are when ``into``, which may be the same memory, is written."""
    octets = packed(message, external)
    aliases = message.view is into.view or octets.obj is message.view.obj
    return memoryview(bytes(octets)) if aliases else octets


def frozen(message: UserBuffer, *, external: bool) -> OctetSource:
    """A copy of the buffer's elements, to be sent."""
    copy = OctetSource(bytes(source(message).octets(external=external)))
    copy.count = message.count
    return copy


def resized(message: UserBuffer, count: int) -> UserBuffer:
    """The first ``count`` elements of a buffer."""
    return replaced(message, count=count)
