"""Reductions on buffers: the user's elements as an array, and the operation as something an algorithm can call."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from impi.api import transport
from impi.api.buffers import Message
from impi.api.op import Op
from impi.collectives import Elements, Reduction
from impi.engine.collective import ArrayCodec
from impi.records import record
from impi.semantics import op as predefined
from impi.semantics.errors import error
from impi.semantics.lazynumpy import np
from impi.vendors.base import INT_MAX, REDUCIBLE, REDUCTIONS

__all__ = ["Plan", "plan", "store"]

_OF_WINDOWS: Final = ("REPLACE", "NO_OP")

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@record
class Plan:
    """What a reduction algorithm needs."""

    value: Array
    """The caller's elements; a view of the user's memory, which no algorithm changes."""
    reduction: Reduction[Array]
    codec: ArrayCodec


def plan(message: Message, op: Op) -> Plan:
    """Make ready to combine the elements of ``message``.

    Raises:
        Exception: ERR_OP, the operation is not defined for the type.
    """
    typemap = transport.wire_type(message)
    name = op._predefined_name()
    if name in _OF_WINDOWS:
        raise error("ERR_OP", f"MPI_{name} is for one-sided communication only")
    if name is not None:
        predefined.check(name, typemap)
    dtype = typemap.dtype or np.dtype((np.void, typemap.extent))
    typemap.span(message.offset, message.count)
    value: Array = np.ndarray((message.count,), dtype, message.view, message.offset)

    def combine(invec: Array, inoutvec: Array) -> Array:
        if name is not None:
            predefined.apply(name, invec, inoutvec, typemap)
        else:
            op._call(invec.view(np.uint8).data, inoutvec.view(np.uint8).data, message.datatype)
        return inoutvec

    codec = ArrayCodec(typemap, dtype, transport.long_size())
    # External32 has one size at all clients, whatever the native one is.
    octets = typemap.packed_size(1, external=True, long_size=transport.long_size())
    elements: Elements[Array] = Elements(octets, len, lambda array, start, end: array[start:end], np.concatenate)
    return Plan(value, Reduction(combine, op.Is_commutative(), np.copy, _library(name, value), elements), codec)


def _library(name: str | None, value: Array) -> tuple[str, str] | None:
    """What MPI libraries call the operation and the elements, where they can reduce them."""
    element = f"{value.dtype.kind}{value.dtype.itemsize}"
    # Counts of libraries may be C ints.
    known = name in REDUCTIONS and element in REDUCIBLE and value.nbytes <= INT_MAX
    return (name, element) if name is not None and known else None


def store(into: Message | None, result: Array | None) -> None:
    """Put a result into the receive buffer."""
    if into is None or result is None or not result.size:
        return
    typemap = transport.wire_type(into)
    octets = result.view(np.uint8).data
    native = typemap.pack(octets, 0, result.size, external=False)
    typemap.unpack(native, into.view, into.offset, into.count, external=False)
