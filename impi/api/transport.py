"""Between a user's buffer and the engine: what is sent of it, what is received into it, in which form."""

from __future__ import annotations

from typing import Any

from impi.api import runtime
from impi.api.buffers import Message, VectorMessage
from impi.api.datatype import Datatype
from impi.engine.payload import BufferSource, BufferTarget, OctetSource
from impi.semantics.datatype import NAMED, TypeMap
from impi.semantics.errors import error

__all__ = [
    "block",
    "long_size",
    "packed",
    "packed_size",
    "part",
    "resized",
    "snapshot",
    "source",
    "target",
    "unpack",
    "wire_type",
]

# numpy's int64 is called 'l', so a buffer of it is discovered as LONG, which external32 stores in 4 octets. Where
# no longer longs were agreed on, what the program means is 8 octets.
_MEANT = {"LONG": NAMED["INT64_T"], "UNSIGNED_LONG": NAMED["UINT64_T"]}


def long_size() -> int:
    """Octets of MPI_LONG on the wire in this job: 4 or 8."""
    return runtime.engine().job.long_size


def wire_type(message: Message) -> TypeMap:
    """The type map of a buffer's elements."""
    typemap = message.datatype.typemap
    if message.discovered and long_size() == 4:
        return _MEANT.get(typemap.name, typemap)
    return typemap


def source(message: Message) -> BufferSource:
    """The buffer as something to send."""
    return BufferSource(wire_type(message), message.view, message.offset, message.count, long_size())


def target(message: Message) -> BufferTarget:
    """The buffer as a place to receive into."""
    return BufferTarget(wire_type(message), message.view, message.offset, message.count, long_size())


def packed(message: Message) -> memoryview:
    """The buffer's elements as external32; an alias of the buffer where they are that already."""
    return source(message).octets(external=True)


def packed_size(message: Message) -> int:
    """Octets of :func:`packed`."""
    return wire_type(message).packed_size(message.count, external=True, long_size=long_size())


def unpack(message: Message, octets: Any) -> None:
    """Put external32 octets into the buffer.

    Raises:
        Exception: ERR_TRUNCATE, they do not fit.
    """
    data = memoryview(octets)
    wire_type(message).unpack(data, message.view, message.offset, message.count, external=True, long_size=long_size())


def snapshot(message: Message, into: Message) -> memoryview:
    """Packed octets that stay what they are when ``into``, which may be the same memory, is written."""
    octets = packed(message)
    aliases = message.view is into.view or octets.obj is message.view.obj
    return memoryview(bytes(octets)) if aliases else octets


def frozen(message: Message, *, external: bool) -> OctetSource:
    """A copy of the buffer's elements, to be sent."""
    copy = OctetSource(bytes(source(message).octets(external=external)))
    copy.count = message.count
    return copy


def resized(message: Message, count: int) -> Message:
    """The first ``count`` elements of a buffer."""
    return _at(message, message.offset, count)


def block(message: Message, index: int) -> Message:
    """Block ``index`` of a buffer of equal blocks."""
    return _at(message, message.offset + index * message.count * message.datatype.typemap.extent, message.count)


def part(message: VectorMessage, index: int) -> Message:
    """Part ``index`` of a buffer of parts with counts and displacements."""
    if not 0 <= index < len(message.counts):
        raise error("ERR_ARG", f"no counts for rank {index}")
    offset = message.offset + message.displs[index] * message.datatype.typemap.extent
    return _at(message, offset, message.counts[index])


def _at(message: Message | VectorMessage, offset: int, count: int) -> Message:
    datatype: Datatype = message.datatype
    return Message(view=message.view, offset=offset, count=count, datatype=datatype, discovered=message.discovered)
