"""Errors of a program's calls: exceptions of impi become codes of the ABI.

The error handler of the communicator, window, file or session has run when a call returns a code;
C's default ends the job (MPI_ERRORS_ARE_FATAL), but for files.
"""

from __future__ import annotations

import os
from typing import Final

from impi.base.errors import ImpiError
from impi.base.variables import HANDLES_FROM
from impi.cabi.objects import handle_tables, link
from impi.cabi.objects.link import MPI, Object, ffi
from impi.cabi.tables.abi import OWNERS
from impi.protocol.semantics.constants import ERROR_CLASSES
from impi.protocol.semantics.errors import LAST_PREDEFINED, MPIException, error
from impi.rank.api import runtime
from impi.rank.api.handles.errhandler import _Handler
from impi.rank.api.handles.failing import handle

_outgoing: Final = {
    number: link.constant(name, link.constant("ERR_OTHER")) for name, (number, _) in ERROR_CLASSES.items()
}
_incoming: Final = {theirs: ours for ours, theirs in _outgoing.items()} | {
    link.constant(name): number for name, (number, _) in ERROR_CLASSES.items() if name in link.abi.constants
}
_outgoing[LAST_PREDEFINED] = _LAST = link.constant("ERR_LASTCODE")
_incoming[_LAST] = LAST_PREDEFINED


def outgoing(code: int) -> int:
    """Return an error class or code of impi as the ABI's; added ones lie above its last."""
    return code - LAST_PREDEFINED + _LAST if code > LAST_PREDEFINED else _outgoing.get(code, code)


def incoming(code: int) -> int:
    """Reverse :func:`outgoing`."""
    return code - _LAST + LAST_PREDEFINED if code > _LAST else _incoming.get(code, code)


UNAVAILABLE: Final = -0x55555556
"""mpi4py's number for functions that a library does not have: it raises NotImplementedError."""
_in_mpi4py: Final = HANDLES_FROM in os.environ
_UNSUPPORTED: Final = link.constant("ERR_UNSUPPORTED_OPERATION", link.constant("ERR_OTHER"))
_incoming[UNAVAILABLE] = ERROR_CLASSES["ERR_UNSUPPORTED_OPERATION"][0]

_WRONG: Final = (ValueError, TypeError, OverflowError, BufferError, NotImplementedError)


def failed(failure: BaseException, name: str, about: tuple[Object, int] | None) -> int:
    """Return the code of a failed call, after the error handler of what it was about.

    Args:
        failure: what was raised.
        name: of the function.
        about: the table and the number of the object with an error handler; None: none.
    """
    if isinstance(failure, ImpiError):
        runtime.fail(failure)
    table, item = (None, None) if about is None else (about[0], about[0].get(about[1]))
    if item is None and table is handle_tables.files:
        item = table[table.null]
    if isinstance(failure, AttributeError) and table is not None and item is not None and failure.obj is item:
        failure = error(table.error, f"it has no MPI_{name}")  # such as MPI_COMM_NULL
    if not isinstance(failure, MPIException):
        if not isinstance(failure, _WRONG):
            raise failure
        kind = "ERR_UNSUPPORTED_OPERATION" if isinstance(failure, NotImplementedError) else "ERR_ARG"
        failure = error(kind, f"MPI_{name}: {failure}")
    failure.call = failure.call or name
    handle(failure, getattr(item, "_owner", None))
    code = outgoing(int(failure))
    if code == _UNSUPPORTED and _in_mpi4py:
        runtime.hooks.lacking = str(failure)
        return UNAVAILABLE
    return code


def lacking(name: str, about: tuple[Object, int] | None) -> int:
    """Return the code of a function that impi does not have."""
    return failed(error("ERR_UNSUPPORTED_OPERATION", f"impi has no {name} yet"), name, about)


_TABLES: Final = {
    "Comm": ("comms", "MPI_Comm"),
    "File": ("files", "MPI_File"),
    "Win": ("wins", "MPI_Win"),
    "Session": ("sessions", "MPI_Session"),
}


def handler(kind: str, function: int) -> Object:
    """Return an error handler that calls a C function with the object's handle and the code.

    mpi4py's limit on the number of handlers is not C's.
    """
    return MPI.Errhandler._wrap(_Handler(_Function(kind, function)))


class _Function:
    """The function of an error handler: C calls it after Python has returned, so it may throw.

    In Fortran it gets the object's number there.
    """

    def __init__(self, kind: str, function: int) -> None:
        self._table, self._type = _TABLES[kind]
        self._owner = list(OWNERS).index(kind) if kind in OWNERS else -1
        self._address = function
        self.fortran = False

    def __call__(self, subject: Object, code: int) -> None:
        number = getattr(handle_tables, self._table).number_of(subject)
        kind = self._type
        if self.fortran and self._owner >= 0:
            kind, number = "int", link.lib.impi_fortran_number(self._owner, number)
        wide = ffi.sizeof(kind) > ffi.sizeof("int")
        link.lib.impi_handle_later(self._address, int(ffi.cast("intptr_t", number)), wide, outgoing(code))
