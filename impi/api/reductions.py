"""Reductions on buffers: the user's elements as a value, and the operation as something an algorithm can call.

The value is an array of numpy or, of few plain numbers in a program that has not loaded numpy, a memoryview.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from impi.api import transport
from impi.api.buffers import Message
from impi.api.op import Op
from impi.collectives import Elements, Reduction
from impi.engine.collective import ArrayCodec, NumbersCodec
from impi.records import record
from impi.semantics import op as predefined
from impi.semantics import wordops
from impi.semantics.datatype import TypeMap
from impi.semantics.errors import error
from impi.semantics.lazynumpy import loaded, np
from impi.vendors.base import INT_MAX, REDUCIBLE, REDUCTIONS

__all__ = ["Plan", "plan", "store"]

_OF_WINDOWS: Final = ("REPLACE", "NO_OP")

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@record
class Plan:
    """What a reduction algorithm needs."""

    value: Any
    """The caller's elements; a view of the user's memory, which no algorithm changes."""
    reduction: Reduction[Any]
    codec: ArrayCodec | NumbersCodec


def plan(message: Message, op: Op) -> Plan:
    """Make ready to combine the elements of ``message``.

    Raises:
        Exception: ERR_OP, the operation is not defined for the type.
    """
    typemap = transport.wire_type(message)
    name = op._predefined_name()
    if name in _OF_WINDOWS:
        raise error("ERR_OP", f"MPI_{name} is for one-sided communication only")
    if name is None:
        return _on_arrays(message, op, typemap, lambda a, b: op._call(_octets(a), _octets(b), message.datatype))
    predefined.check(name, typemap)
    code = wordops.code_of(typemap)
    if name in wordops.OPS and code and wordops.worth(message.count) and not loaded():
        return _on_numbers(message, op, name, code)
    return _on_arrays(message, op, typemap, lambda a, b: predefined.apply(name, a, b, typemap))


def _on_arrays(message: Message, op: Op, typemap: TypeMap, act: Callable[[Array, Array], object]) -> Plan:
    dtype = typemap.dtype or np.dtype((np.void, typemap.extent))
    value: Array = np.ndarray((message.count,), dtype, message.view, message.offset)

    def combine(invec: Array, inoutvec: Array) -> Array:
        act(invec, inoutvec)
        return inoutvec

    elements: Elements[Array] = Elements(_between(typemap), len, _part, np.concatenate)
    reduction = Reduction(combine, op.Is_commutative(), np.copy, _library(message, op), elements)
    return Plan(value, reduction, ArrayCodec(typemap, dtype, transport.long_size()))


def _on_numbers(message: Message, op: Op, name: str, code: str) -> Plan:
    typemap = transport.wire_type(message)
    first, last = typemap.inside(message.view, message.offset, message.count)
    elements: Elements[memoryview] = Elements(_between(typemap), len, _part, wordops.join)
    reduction = Reduction(wordops.combine(name, code), op.Is_commutative(), _copied, _library(message, op), elements)
    value = wordops.numbers(message.view[first:last], code)
    return Plan(value, reduction, NumbersCodec(typemap, code, transport.long_size()))


def _octets(value: Array) -> memoryview:
    return value.view(np.uint8).data


def _part(value: Any, start: int, end: int) -> Any:
    return value[start:end]


def _copied(value: memoryview) -> memoryview:
    return wordops.numbers(bytearray(value), value.format)


def _between(typemap: TypeMap) -> int:
    """Octets of an element between clients: external32 has one size at all of them, whatever the native one is."""
    return typemap.packed_size(1, external=True, long_size=transport.long_size())


def _library(message: Message, op: Op) -> tuple[str, str] | None:
    """What MPI libraries call the operation and the elements, where they can reduce them."""
    typemap, name = transport.wire_type(message), op._predefined_name()
    if name not in REDUCTIONS or not typemap.name or len(typemap.runs) != 1:
        return None
    element = typemap.runs[0].basic.code
    # Counts of libraries may be C ints.
    known = element in REDUCIBLE and message.count * typemap.size <= INT_MAX
    return (name, element) if known else None


def store(into: Message | None, result: Any) -> None:
    """Put a result into the receive buffer."""
    if into is None or result is None or not len(result):
        return
    typemap = transport.wire_type(into)
    octets = result.cast("B") if isinstance(result, memoryview) else _octets(result)
    native = typemap.pack(octets, 0, len(result), external=False)
    typemap.unpack(native, into.view, into.offset, into.count, external=False)
