"""Sources and targets of the engine for user buffers, and their packed form."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Final

from impi.base.records import replaced
from impi.protocol.semantics.values.datatype import TypeMap
from impi.rank.api import runtime
from impi.rank.api.types.buffers import Plain, UserBlocks, UserBuffer, plain_types
from impi.rank.api.types.memory import overlap
from impi.rank.engine.channels.payload import (
    BufferSource,
    BufferTarget,
    DirectSource,
    DirectTarget,
    OctetSource,
    Source,
    Target,
)

_SHORT: Final = 4096
"""Octets of the longest snapshot that is made unasked."""


def long_size() -> int:
    """Return the octets of MPI_LONG on the wire in this job: 4 or 8."""
    return runtime.engine().job.long_size


def wire_type(message: UserBuffer) -> TypeMap:
    """Return the type map of a buffer's elements."""
    return message.wire_type(strict=long_size() == 4)


def source(message: UserBuffer) -> BufferSource:
    """Return the buffer as a source."""
    return BufferSource(
        wire_type(message), message.view, message.offset, message.count, long_size()
    )


def plain() -> Container[object]:
    """Return the types that need no conversion between the clients of this job."""
    return plain_types(external=runtime.engine().external)


def source_of(data: Plain | UserBuffer) -> Source:
    """Return the result of :func:`impi.rank.api.types.buffers.read` as a source."""
    return DirectSource(*data) if isinstance(data, tuple) else source(data)


def target_of(data: Plain | UserBuffer) -> Target:
    """Return the result of :func:`impi.rank.api.types.buffers.read` as a target."""
    return DirectTarget(data[0]) if isinstance(data, tuple) else target(data)


def target(message: UserBuffer) -> BufferTarget:
    """Return the buffer as a target."""
    return BufferTarget(
        wire_type(message), message.view, message.offset, message.count, long_size()
    )


def targets(data: Plain | UserBuffer) -> Callable[[], Target]:
    """Return a function that makes targets of the buffer, even once its datatype is freed."""
    if isinstance(data, tuple):
        place = data[0]
        return lambda: DirectTarget(place)

    arguments = (wire_type(data), data.view, data.offset, data.count, long_size())

    return lambda: BufferTarget(*arguments)


# ``external``: whether octets are external32; None: the form between clients.


def packed(message: UserBuffer, external: bool | None = None) -> memoryview:
    """Return the elements as octets; aliases the buffer if nothing needs conversion."""
    external = runtime.engine().external if external is None else external
    octets = None if external else message.octets()

    return source(message).octets(external=external) if octets is None else octets


def packed_size(message: UserBuffer, external: bool | None = None) -> int:
    """Return the octets of :func:`packed`."""

    external = runtime.engine().external if external is None else external

    octets = None if external else message.octets()
    if octets is not None:
        return len(octets)

    return wire_type(message).packed_size(
        message.count, external=external, long_size=long_size()
    )


def unpack(message: UserBuffer, octets: Any, external: bool | None = None) -> None:
    """Unpack octets in the form of :func:`packed` into the buffer.

    Raises:
        Exception: ERR_TRUNCATE: they do not fit.
    """

    external = runtime.engine().external if external is None else external

    place = None if external else message.octets()
    if place is not None and len(octets) <= len(place):
        place[: len(octets)] = octets
        return

    wire_type(message).unpack(
        memoryview(octets),
        message.view,
        message.offset,
        message.count,
        external=external,
        long_size=long_size(),
    )


def snapshot(
    message: UserBuffer, into: UserBuffer, external: bool | None = None
) -> memoryview:
    """Return packed octets that do not change when ``into`` is written, even if it overlaps."""
    return unaffected(packed(message, external), message, into)


def unaffected(
    octets: memoryview,
    message: UserBuffer | UserBlocks,
    into: UserBuffer | UserBlocks,
) -> memoryview:
    """Return octets of ``message``, or a copy where a write to ``into`` may change them."""
    # To ask whether two buffers overlap costs more than the copy of a short one.
    aliases = octets.obj is message.view.obj and (
        len(octets) <= _SHORT or overlap(octets, into.view)
    )

    return memoryview(bytes(octets)) if aliases else octets


def in_a_row(
    message: UserBuffer | UserBlocks, blocks: int, external: bool | None = None
) -> memoryview | None:
    """Return blocks as octets in a row; None: they lie apart, are converted, or are none."""

    if not blocks or type(message) is not UserBuffer:
        return None

    external = runtime.engine().external if external is None else external

    return None if external else message.octets(blocks)


def frozen(message: UserBuffer, *, external: bool) -> OctetSource:
    """Return a copy of the elements as a source."""
    copy = OctetSource(bytes(source(message).octets(external=external)))
    copy.count = message.count

    return copy


def resized(message: UserBuffer, count: int) -> UserBuffer:
    """Return the first ``count`` elements of a buffer."""
    return replaced(message, count=count)
