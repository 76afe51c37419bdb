"""The Python side of :mod:`impi.cabi.text.language_stubs`: attributes and callbacks in Fortran."""

from __future__ import annotations

from typing import Final

from impi.cabi.calls import attribute_calls, callbacks
from impi.cabi.calls.attribute_calls import Typed
from impi.cabi.objects import link
from impi.cabi.objects.failures import failed
from impi.cabi.objects.handle_tables import errhandlers, ops, requests
from impi.cabi.objects.link import Object, Pointer, ffi
from impi.cabi.tables.abi import OWNERS

_NAMES: Final = tuple(OWNERS)


def put(owner: int, number: int, key: int, value: int, kind: int) -> int:
    """Set an attribute to an integer, or to a pointer if ``kind`` is 0; return an error code."""
    table = _table(owner)
    try:
        attribute_calls.put(table[number], key, Typed.of(value, kind))
    except BaseException as failure:
        return failed(failure, f"{_NAMES[owner]}_set_attr", (table, number))

    return 0


def get(owner: int, number: int, key: int, place: int, flag: Pointer, kind: int) -> int:
    """Write an attribute: an integer, or C's pointer if ``kind`` is 0; return an error code."""
    table = _table(owner)
    try:
        if kind:
            attribute_calls.get_number(table[number], key, place, flag)
        else:
            attribute_calls.get(table[number], key, place, flag)
    except BaseException as failure:
        return failed(failure, f"{_NAMES[owner]}_get_attr", (table, number))

    return 0


def _table(owner: int) -> Object:
    return attribute_calls.CLASSES[_NAMES[owner]][1]


def functions(key: int, copy: int, delete: int) -> int:
    """Note that a keyval's functions are in Fortran, and keep the two C functions that call them.

    Returns 0 if the key is the vendor's, else 1.
    """
    if key not in attribute_calls.keys:
        return 0

    # In the form of MPICH's proxies: the program's function comes
    # first, and a value behind its kind.
    attribute_calls.callers[key] = (
        ffi.cast(
            f"int (*)(intptr_t, {link.abi.handle}, int, intptr_t, int, intptr_t, intptr_t *, int *)",
            copy,
        ),
        ffi.cast(
            f"int (*)(intptr_t, {link.abi.handle}, int, int, intptr_t, intptr_t)",
            delete,
        ),
    )

    return 1


def request(number: int) -> int:
    """Note that the functions of a generalized request are written in Fortran."""
    callbacks.speaks_fortran(requests[number])
    return 0


def operation(number: int) -> int:
    """Note that an operation's function is written in Fortran."""
    ops[number]._state.function.fortran = True
    return 0


def errhandler(number: int) -> int:
    """Note that an error handler's function is written in Fortran."""
    errhandlers[number]._state.function.fortran = True
    return 0


LENT: Final = {
    "impi_py_fortran_put": put,
    "impi_py_fortran_get": get,
    "impi_py_fortran_functions": functions,
    "impi_py_fortran_request": request,
    "impi_py_fortran_op": operation,
    "impi_py_fortran_errhandler": errhandler,
}
