"""Reductions on buffers: the user's elements as a value, the operation as a callable.

The value is a numpy array, or a memoryview of few plain numbers if numpy is not loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from impi.api.types import marshalling
from impi.api.types.buffers import UserBuffer
from impi.api.types.ops import Op, array_of
from impi.api.types.typestate import TypeState
from impi.collectives import Elements, Reduction
from impi.engine.collective import ArrayCodec, NumbersCodec
from impi.records import record
from impi.semantics import op as predefined
from impi.semantics import wordops
from impi.semantics.datatype import TypeMap
from impi.semantics.lazynumpy import loaded, np
from impi.vendors.base import INT_MAX, REDUCIBLE, REDUCTIONS

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@record
class Plan:
    """The arguments of a reduction algorithm."""

    value: Any
    """The caller's elements: a view of user memory, which no algorithm changes."""
    reduction: Reduction[Any]
    codec: ArrayCodec | NumbersCodec


def plan(message: UserBuffer, op: Op) -> Plan:
    """Prepare to combine the elements of ``message``.

    Raises:
        Exception: ERR_OP: the operation is not defined for the type.
    """
    typemap = marshalling.wire_type(message)
    name = op._predefined_name()
    if name is not None:
        predefined.check_reduction(name, typemap)
    long_size = marshalling.long_size()
    code = wordops.code_of(typemap)
    value: Any
    combine: Callable[[Any, Any], Any]
    copy: Callable[[Any], Any]
    join: Callable[[Any], Any]
    codec: ArrayCodec | NumbersCodec
    if name in wordops.OPS and code and wordops.worth(message.count) and not loaded():
        first, last = typemap.inside(message.view, message.offset, message.count)
        value = wordops.numbers(message.view[first:last], code)
        combine, copy, join = wordops.combine(name, code), wordops.copied, wordops.join
        codec = NumbersCodec(typemap, code, long_size)
    else:
        value = array_of(message)
        combine, copy, join = _on_arrays(message, op, name, typemap), np.copy, np.concatenate
        codec = ArrayCodec(typemap, value.dtype, long_size)
    # External32 has one size at all clients, independent of the native size.
    octets = typemap.packed_size(1, external=True, long_size=long_size)
    elements: Elements[Any] = Elements(octets, len, lambda value, start, end: value[start:end], join)
    library = _library(name, typemap, message.count)
    return Plan(value, Reduction(combine, op.Is_commutative(), copy, library, elements), codec)


def _on_arrays(message: UserBuffer, op: Op, name: str | None, typemap: TypeMap) -> Callable[[Array, Array], Array]:
    def combine(invec: Array, inoutvec: Array) -> Array:
        if name is not None:
            predefined.apply(name, invec, inoutvec, typemap)
        else:
            op._call(_octets(invec), _octets(inoutvec), message.datatype)
        return inoutvec

    return combine


def _octets(value: Array) -> memoryview:
    return value.view(np.uint8).data


def _library(name: str | None, typemap: TypeMap, count: int) -> tuple[str, str] | None:
    """Return the names of operation and elements in MPI libraries, if these can reduce them."""
    if name not in REDUCTIONS or not typemap.name or len(typemap.runs) != 1:
        return None
    element = typemap.runs[0].basic.code
    # Counts of a library may be C ints.
    known = element in REDUCIBLE and count * typemap.size <= INT_MAX
    return (name, element) if known else None


def library_names(op: Op, datatype: TypeState) -> tuple[str, str] | None:
    """Return the names of an operation and a datatype in MPI libraries; None: not defined there.

    Raises:
        Exception: ERR_OP: the operation is null, or not defined for the type.
    """
    name, typemap = op._predefined_name(), datatype.typemap
    if name is None:
        return None
    predefined.check_reduction(name, typemap)
    return _library(name, typemap, 0)


def store(into: UserBuffer | None, result: Any) -> None:
    """Write a result into the receive buffer."""
    if into is None or result is None or not len(result):
        return
    typemap = marshalling.wire_type(into)
    octets = result.cast("B") if isinstance(result, memoryview) else _octets(result)
    native = typemap.pack(octets, 0, len(result), external=False)
    typemap.unpack(native, into.view, into.offset, into.count, external=False)
