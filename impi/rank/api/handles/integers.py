"""Integer arguments: the values that mpi4py takes and refuses, as Cython compiles it for C.

A single integer may be whatever has ``__int__``, and loses its fraction. Integers of a sequence
need ``__index__``. Both were measured with mpi4py 4.1.2: see tests/programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import index
from typing import Any, Final, TypeAlias

from impi.protocol.semantics.constants import INT_MAX

LONG_MAX: Final = (1 << 63) - 1
"""The largest count, displacement or address."""
_ADDRESSES: Final = (
    "address",
    "addr1",
    "addr2",
    "base",
    "disp",
    "extent",
    "handle",
    "lb",
    "stride",
    "target_disp",
)
# Parameters with the range of MPI_Count or MPI_Aint; all others are C ints.
_WIDE: Final = frozenset(
    (*_ADDRESSES, "blocklength", "count", "nbytes", "offset", "position", "size")
)

Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


def integer(value: Any, most: int = INT_MAX) -> int:
    """Return a single argument as an integer.

    Raises:
        TypeError: it has no ``__int__``, as a str.
        ValueError: not a number (NaN).
        OverflowError: not in -``most`` - 1..``most``, or infinite.
    """
    if not hasattr(type(value), "__int__"):
        raise TypeError(f"an integer is required, not {type(value).__name__}")

    return fitting(int(value), most)


def fitting(value: int, most: int = INT_MAX) -> int:
    """Return a value that C has room for; raises OverflowError."""
    if not -most - 1 <= value <= most:
        raise OverflowError(f"{value} is not in the range of C: {-most - 1} to {most}")

    return value


def row(values: Iterable[Any], most: int = INT_MAX) -> list[int]:
    """Return the integers of a sequence argument.

    Raises:
        TypeError: it is not a sequence, or an item has no ``__index__``, as a float.
        OverflowError: an item is not in -``most`` - 1..``most``.
    """
    return [fitting(index(value), most) for value in values]


def converter(function: Any, first: int) -> Callable[..., Arguments] | None:
    """Return a converter of the ``int`` parameters of a function; None: it has none.

    The parameters are those after the ``first`` ones that are annotated so.
    """

    code, annotations = function.__code__, function.__annotations__
    names = code.co_varnames[first : code.co_argcount]
    limits = {
        name: LONG_MAX if name in _WIDE else INT_MAX
        for name in names
        if annotations.get(name) == "int"
    }

    places = [
        (place, limits[name]) for place, name in enumerate(names) if name in limits
    ]
    if not places:
        return None

    def convert(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        n = len(args)
        for place, most in places:
            # The usual argument, an int in range, costs no call.
            if place < n and (
                type(value := args[place]) is not int or not -most <= value <= most
            ):
                args = (*args[:place], integer(value, most), *args[place + 1 :])

        for name, value in kwargs.items():
            if name in limits:
                kwargs[name] = integer(value, limits[name])

        return args, kwargs

    return convert
