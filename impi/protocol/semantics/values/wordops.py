"""The reductions of :mod:`.op` on few integers or doubles, without numpy, which loads slowly.

Values are memoryviews of native numbers, so that parts of them are aliases, as of arrays.
"""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Sequence
from typing import Any, Final

from impi.protocol.semantics.values.basic import C_CODES
from impi.protocol.semantics.values.datatype import TypeMap
from impi.protocol.semantics.values.op import unequal

MOST: Final = 32
"""Elements that Python combines as fast as numpy does; more are numpy's."""
# By the names of numpy, and of libraries' elements: those of array.
_CODES: Final = {
    name: code for name, code in C_CODES.items() if name[0] in "iu" or name == "f8"
}


def _maximum(a: Any, b: Any) -> Any:
    return a if a >= b or a != a else b  # noqa: PLR0124  (what is not a number wins, as in numpy)


def _minimum(a: Any, b: Any) -> Any:
    return a if a <= b or a != a else b  # noqa: PLR0124


OPS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "MAX": _maximum,
    "MIN": _minimum,
    "SUM": operator.add,
    "PROD": operator.mul,
    "LAND": lambda a, b: int(bool(a and b)),
    "BAND": operator.and_,
    "LOR": lambda a, b: int(bool(a or b)),
    "BOR": operator.or_,
    "LXOR": lambda a, b: int(bool(a) is not bool(b)),
    "BXOR": operator.xor,
}
"""Functions of two numbers by name; :func:`impi.protocol.semantics.values.op.check` says where they
are defined."""


def code_of(datatype: TypeMap) -> str:
    """Return :mod:`array`'s code for a predefined type; empty if it has none or differs in its
    rules."""
    return (
        _CODES.get(datatype.runs[0].basic.code, "")
        if datatype.name and len(datatype.runs) == 1
        else ""
    )


def numbers(octets: memoryview | bytearray, code: str) -> memoryview:
    """The elements that lie there, as a value."""
    # An empty view cannot be cast
    view = memoryview(octets).cast("B") if len(octets) else memoryview(bytearray())
    return view.cast(code)  # type: ignore[call-overload, no-any-return]


def copied(value: memoryview) -> memoryview:
    """Return a copy of the numbers."""
    return numbers(bytearray(value), value.format)


def join(values: Sequence[memoryview]) -> memoryview:
    """Values one after the other, as one."""
    return numbers(bytearray(b"".join(values)), values[0].format)


def combine(
    op: str, code: str, *, onto: bool = False
) -> Callable[[memoryview, memoryview], memoryview]:
    """Return ``combine(invec, inoutvec)``: :func:`impi.protocol.semantics.values.op.apply` that
    returns ``inoutvec``; with ``onto`` the result is in ``invec``, and that is returned.

    The function raises MPIException: ``ERR_TRUNCATE``: the lengths differ.
    """

    function = OPS[op]
    width = array(code).itemsize
    # Upper case is unsigned among the codes of array.
    low = 0 if code.isupper() else -(1 << (8 * width - 1))
    mask = (1 << (8 * width)) - 1

    def run(invec: memoryview, inoutvec: memoryview) -> memoryview:
        # map() would end at the shorter one, without a word.
        if len(invec) != len(inoutvec):
            raise unequal(len(invec), len(inoutvec))

        out = invec if onto else inoutvec
        try:
            # Nothing is written before all results are there, so an overflow
            # leaves both operands whole.
            out[:] = array(code, map(function, invec, inoutvec))
        except OverflowError:  # it wraps, as in C
            wrapped = (
                ((function(a, b) - low) & mask) + low
                for a, b in zip(invec, inoutvec, strict=True)
            )
            out[:] = array(code, wrapped)

        return out

    return run
