"""The predefined reductions, on arrays (MPI 4.1, 6.9.2 and 6.9.4)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from impi.protocol.semantics.errors import MPIException, error
from impi.protocol.semantics.lazynumpy import np
from impi.protocol.semantics.values.basic import Kind
from impi.protocol.semantics.values.datatype import TypeMap

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

_ORDERED: Final = frozenset(
    {Kind.C_INTEGER, Kind.FORTRAN_INTEGER, Kind.FLOATING, Kind.MULTI_LANGUAGE}
)
_ARITHMETIC: Final = _ORDERED | {Kind.COMPLEX}
# The standard does not include MPI_AINT and its like; MPICH and Open MPI do.
_LOGICAL: Final = frozenset({Kind.C_INTEGER, Kind.LOGICAL, Kind.MULTI_LANGUAGE})
_BITWISE: Final = frozenset(
    {Kind.C_INTEGER, Kind.FORTRAN_INTEGER, Kind.BYTE, Kind.MULTI_LANGUAGE}
)
_ANY: Final = frozenset(Kind)


def unequal(one: int, other: int) -> MPIException:
    """Return the failure of a reduction to which two ranks give different numbers of elements."""
    return error(
        "ERR_TRUNCATE",
        f"one rank gives {one} elements to a reduction, another one {other}: give as many on all ranks",
    )


def _ufunc(name: str) -> Callable[[Array, Array], None]:
    return lambda invec, inoutvec: _run(name, invec, inoutvec, inoutvec)


def _run(name: str, invec: Array, inoutvec: Array, out: Array) -> None:
    function: np.ufunc = getattr(np, name)
    # Overflow wraps or gives infinity, as in C; it is not a reason for a warning.
    with np.errstate(all="ignore"):
        function(invec, inoutvec, out=out, casting="unsafe")


def _location(name: str) -> Callable[[Array, Array], None]:
    def run(invec: Array, inoutvec: Array) -> None:
        better: np.ufunc = getattr(np, name)
        value, index = invec["value"], invec["index"]
        # MPI 4.1, 6.9.4: of equal values the lower index wins.
        take = better(value, inoutvec["value"])
        take |= (value == inoutvec["value"]) & (index < inoutvec["index"])
        np.copyto(inoutvec["value"], value, where=take)
        np.copyto(inoutvec["index"], index, where=take)

    return run


def _replace(invec: Array, inoutvec: Array) -> None:
    inoutvec[...] = invec


def _nothing(invec: Array, inoutvec: Array) -> None:
    pass


UFUNCS: Final = {
    "MAX": "maximum",
    "MIN": "minimum",
    "SUM": "add",
    "PROD": "multiply",
    "BAND": "bitwise_and",
    "BOR": "bitwise_or",
    "BXOR": "bitwise_xor",
}
"""numpy's names of the operations whose results have the operands' type."""

OPS: Final[dict[str, tuple[Callable[[Array, Array], None], frozenset[Kind]]]] = {
    "MAX": (_ufunc(UFUNCS["MAX"]), _ORDERED),
    "MIN": (_ufunc(UFUNCS["MIN"]), _ORDERED),
    "SUM": (_ufunc(UFUNCS["SUM"]), _ARITHMETIC),
    "PROD": (_ufunc(UFUNCS["PROD"]), _ARITHMETIC),
    "LAND": (_ufunc("logical_and"), _LOGICAL),
    "BAND": (_ufunc(UFUNCS["BAND"]), _BITWISE),
    "LOR": (_ufunc("logical_or"), _LOGICAL),
    "BOR": (_ufunc(UFUNCS["BOR"]), _BITWISE),
    "LXOR": (_ufunc("logical_xor"), _LOGICAL),
    "BXOR": (_ufunc(UFUNCS["BXOR"]), _BITWISE),
    "MAXLOC": (_location("greater"), frozenset()),
    "MINLOC": (_location("less"), frozenset()),
    "REPLACE": (_replace, _ANY),
    "NO_OP": (_nothing, _ANY),
}
"""The function of each operation, and the kinds of basic types it is defined for (none: pairs)."""

OF_WINDOWS: Final = ("REPLACE", "NO_OP")
"""Operations of one-sided communication alone."""


def check(op: str, datatype: TypeMap) -> None:
    """Raise :class:`MPIException` of class ``ERR_OP`` if the type does not have the operation."""

    kinds = OPS[op][1]
    if not datatype.name:
        raise error(
            "ERR_OP",
            f"MPI_{op} is defined for predefined datatypes only: use an operation of your own",
        )

    # Only value-index pairs have two runs among predefined types.
    kind = datatype.runs[0].basic.kind
    is_pair = len(datatype.runs) == 2
    if not ((not kinds or kinds is _ANY) if is_pair else kind in kinds):
        what = "value and index pairs" if is_pair else f"{kind.value} types"
        raise error(
            "ERR_OP", f"MPI_{op} is not defined for {what} such as MPI_{datatype.name}"
        )


def check_reduction(op: str, datatype: TypeMap) -> None:
    """Raise as :func:`check`, and for the operations that only windows have."""
    if op in OF_WINDOWS:
        raise error("ERR_OP", f"MPI_{op} is for one-sided communication only")

    check(op, datatype)


def apply(op: str, invec: Array, inoutvec: Array, datatype: TypeMap) -> None:
    """``inoutvec = invec op inoutvec``, element by element; both of dtype ``datatype.dtype``.

    Raises:
        MPIException: ``ERR_OP``, as :func:`check`.
    """
    check(op, datatype)
    OPS[op][0](invec, inoutvec)


def onto(op: str) -> Callable[[Array, Array], Array] | None:
    """Return a function like :func:`apply` whose result is in ``invec``; None: there is none.

    The function raises MPIException: ``ERR_TRUNCATE``: the lengths differ.
    """

    name = UFUNCS.get(op)
    if name is None:
        return None

    def run(invec: Array, inoutvec: Array) -> Array:
        if len(invec) != len(inoutvec):
            raise unequal(len(invec), len(inoutvec))

        _run(name, invec, inoutvec, invec)
        return invec

    return run
