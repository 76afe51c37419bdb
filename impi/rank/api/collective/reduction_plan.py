"""Reductions on buffers: the user's elements as a value, the operation as a callable.

The value is a numpy array, or a memoryview of few plain numbers if numpy is not loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from impi.base.records import record, replaced
from impi.protocol.collectives import Elements, Reduction
from impi.protocol.semantics.lazynumpy import np
from impi.protocol.semantics.values import op as predefined
from impi.protocol.semantics.values import wordops
from impi.protocol.semantics.values.datatype import TypeMap
from impi.rank.api.collective.algorithms import Plans
from impi.rank.api.types import marshalling
from impi.rank.api.types.buffers import UserBuffer
from impi.rank.api.types.datatypes import Datatype
from impi.rank.api.types.ops import Op, array_of
from impi.rank.api.types.typestate import TypeState
from impi.rank.engine.collective import ArrayCodec, NumbersCodec
from impi.rank.vendors.base import INT_MAX, REDUCIBLE, REDUCTIONS

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


_Codec: TypeAlias = ArrayCodec | NumbersCodec


@record
class Plan:
    """The arguments of a reduction algorithm."""

    value: Any
    """The caller's elements: a view of user memory, which no algorithm changes."""
    reduction: Reduction[Any]
    codec: _Codec


def plan(message: UserBuffer, op: Op, plans: Plans, *, external: bool) -> Plan:
    """Prepare to combine the elements of ``message``.

    Args:
        message: the caller's elements.
        op: the operation.
        plans: those of the communicator: predefined operations on predefined types are prepared
            once.
        external: whether clients send each other external32.

    Raises:
        Exception: ERR_OP: the operation is not defined for the type.
    """

    few = message.count <= wordops.MOST
    key = (op._state, message.datatype._state, message.discovered, few)

    found = plans.get(key)
    if found is None:
        found = _prepared(message, op, few, external)
        # Operations and datatypes of the program's own may be freed, and a kept plan would hold
        # them.
        if op._is_constant and message.datatype._is_constant:
            plans[key] = found

    reduction, codec = found
    if isinstance(codec, NumbersCodec):
        return Plan(_numbers_of(message, codec), reduction, codec)

    typemap = codec.datatype
    if message.count * typemap.size > INT_MAX:  # counts of a library may be C ints
        reduction = replaced(reduction, library=None)

    return Plan(array_of(message), reduction, codec)


def _numbers_of(message: UserBuffer, codec: NumbersCodec) -> memoryview:
    octets = message.octets()
    # A slice ends where the memory ends; the check has the sentence.
    if octets is None or len(octets) < message.count * codec.width:
        first, last = codec.datatype.inside(message.view, message.offset, message.count)
        octets = message.view[first:last]

    return wordops.numbers(octets, codec.code)


def _prepared(
    message: UserBuffer, op: Op, few: bool, external: bool
) -> tuple[Reduction[Any], _Codec]:
    typemap = marshalling.wire_type(message)

    name = op._predefined_name()
    if name is not None:
        predefined.check_reduction(name, typemap)

    long_size = marshalling.long_size()
    code = wordops.code_of(typemap)
    combine: Callable[[Any, Any], Any]
    copy: Callable[[Any], Any]
    join: Callable[[Any], Any]
    codec: _Codec

    onto: Callable[[Any, Any], Any] | None
    if name in wordops.OPS and code and few:
        combine, copy, join = wordops.combine(name, code), wordops.copied, wordops.join
        onto = wordops.combine(name, code, onto=True)
        codec = NumbersCodec(typemap, code, long_size, external=external)
    else:
        combine, copy, join = (
            _on_arrays(message.datatype, op, name),
            np.copy,
            np.concatenate,
        )
        onto = None if name is None else predefined.onto(name)
        codec = ArrayCodec(
            typemap, array_of(message).dtype, long_size, external=external
        )

    # External32 has one size at all clients, independent of the native size.
    octets = typemap.packed_size(1, external=True, long_size=long_size)
    elements: Elements[Any] = Elements(
        octets, len, lambda value, start, end: value[start:end], join
    )

    return Reduction(
        combine, op.Is_commutative(), copy, _library(name, typemap), onto, elements
    ), codec


def _on_arrays(
    datatype: Datatype, op: Op, name: str | None
) -> Callable[[Array, Array], Array]:
    """Return the function of an operation, which is known to be defined for the type."""
    if name is not None:
        apply, _ = predefined.OPS[name]
    else:

        def apply(invec: Array, inoutvec: Array) -> None:
            op._call(_octets(invec), _octets(inoutvec), datatype)

    def combine(invec: Array, inoutvec: Array) -> Array:
        if len(invec) != len(inoutvec):
            raise predefined.unequal(len(invec), len(inoutvec))

        apply(invec, inoutvec)
        return inoutvec

    return combine


def _octets(value: Array) -> memoryview:
    return value.view(np.uint8).data


def _library(name: str | None, typemap: TypeMap) -> tuple[str, str] | None:
    """Return the names of operation and elements in MPI libraries, if these can reduce them."""
    if name not in REDUCTIONS or not typemap.name or len(typemap.runs) != 1:
        return None

    element = typemap.runs[0].basic.code

    return (name, element) if element in REDUCIBLE else None


def library_names(op: Op, datatype: TypeState) -> tuple[str, str] | None:
    """Return the names of an operation and a datatype in MPI libraries; None: not defined there.

    Raises:
        Exception: ERR_OP: the operation is null, or not defined for the type.
    """

    name, typemap = op._predefined_name(), datatype.typemap
    if name is None:
        return None

    predefined.check_reduction(name, typemap)

    return _library(name, typemap)


def store(into: UserBuffer | None, result: Any) -> None:
    """Write a result into the receive buffer."""

    if into is None or result is None or not len(result):
        return

    octets = result.cast("B") if isinstance(result, memoryview) else _octets(result)

    place = into.octets()
    if place is not None and len(octets) <= len(place):
        place[: len(octets)] = octets
        return

    typemap = marshalling.wire_type(into)
    native = typemap.pack(octets, 0, len(result), external=False)
    typemap.unpack(native, into.view, into.offset, into.count, external=False)
