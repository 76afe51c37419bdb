"""Errors of a program's calls: exceptions of impi become error codes of the ABI.

:func:`failed` is in the ``except`` of every generated function. It calls the error handler of the
communicator, window, file or session and returns the code. C's default handler ends the job
(MPI_ERRORS_ARE_FATAL), except for files.

The program's own handler may throw, or jump away with longjmp(). Through Python's frames a C++
exception ended the process by SIGSEGV, and longjmp() left Python's locks taken. So Python only
notes the handler, and the stub calls it once Python has returned.
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
    number: link.constant(name, link.constant("ERR_OTHER"))
    for name, (number, _) in ERROR_CLASSES.items()
}
_incoming: Final = {theirs: ours for ours, theirs in _outgoing.items()} | {
    link.constant(name): number
    for name, (number, _) in ERROR_CLASSES.items()
    if name in link.abi.constants
}
_outgoing[LAST_PREDEFINED] = _LAST = link.constant("ERR_LASTCODE")
_incoming[_LAST] = LAST_PREDEFINED


def outgoing(code: int) -> int:
    """Return impi's error class or code as the ABI's; the program's own lie above its last."""
    return (
        code - LAST_PREDEFINED + _LAST
        if code > LAST_PREDEFINED
        else _outgoing.get(code, code)
    )


def incoming(code: int) -> int:
    """Return the ABI's error class or code as impi's."""
    return code - _LAST + LAST_PREDEFINED if code > _LAST else _incoming.get(code, code)


UNAVAILABLE: Final = -0x55555556
"""mpi4py's code for functions that a library lacks: mpi4py raises NotImplementedError for it."""
_in_mpi4py: Final = HANDLES_FROM in os.environ
_UNSUPPORTED: Final = link.constant(
    "ERR_UNSUPPORTED_OPERATION", link.constant("ERR_OTHER")
)
_incoming[UNAVAILABLE] = ERROR_CLASSES["ERR_UNSUPPORTED_OPERATION"][0]

# Errors of the program's arguments that Python itself finds: ERR_ARG, not a bug of impi.
_WRONG: Final = (ValueError, TypeError, OverflowError, BufferError, NotImplementedError)


def failed(failure: BaseException, name: str, about: tuple[Object, int] | None) -> int:
    """Call the error handler for a failed call and return the error code.

    Args:
        failure: the exception.
        name: the function, without ``MPI_``.
        about: the table and the handle of the object with the error handler; None: there is none.

    Raises:
        BaseException: ``failure`` itself, if it is not an error of MPI: a bug, or a signal.
    """

    if isinstance(failure, ImpiError):
        # A lost channel or peer ends the job, whatever the handler
        runtime.fail(failure)

    table, item = (None, None) if about is None else (about[0], about[0].get(about[1]))
    # Without an open file, MPI_FILE_NULL's handler is the one to call (MPI 4.1, 14.7).
    if item is None and table is handle_tables.files:
        item = table[table.null]

    if (
        isinstance(failure, AttributeError)
        and table is not None
        and item is not None
        and failure.obj is item
    ):
        # Such as MPI_COMM_NULL, or a wrong kind
        failure = error(table.error, f"it has no MPI_{name}")

    if not isinstance(failure, MPIException):
        if not isinstance(failure, _WRONG):
            raise failure

        kind = (
            "ERR_UNSUPPORTED_OPERATION"
            if isinstance(failure, NotImplementedError)
            else "ERR_ARG"
        )
        failure = error(kind, f"MPI_{name}: {failure}")

    failure.call = failure.call or name
    handle(failure, getattr(item, "_owner", None))

    code = outgoing(int(failure))
    if code == _UNSUPPORTED and _in_mpi4py:
        runtime.hooks.lacking = str(failure)
        return UNAVAILABLE

    return code


def lacking(name: str, about: tuple[Object, int] | None) -> int:
    """Call the error handler for a function that impi lacks, and return the error code."""
    return failed(
        error("ERR_UNSUPPORTED_OPERATION", f"impi has no {name} yet"), name, about
    )


_TABLES: Final = {
    "Comm": ("comms", "MPI_Comm"),
    "File": ("files", "MPI_File"),
    "Win": ("wins", "MPI_Win"),
    "Session": ("sessions", "MPI_Session"),
}


def handler(kind: str, function: int) -> Object:
    """Return an error handler that calls a C function with the object's handle and the code.

    It bypasses ``Create_errhandler``, because mpi4py limits the number of handlers and C does not.
    """
    return MPI.Errhandler._wrap(_Handler(_Function(kind, function)))


class _Function:
    """The function of an error handler: the stub calls it after Python has returned.

    One in Fortran gets Fortran's number of the object.
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

        # The handler gets the address of a handle: a variable of that width must be there.
        wide = ffi.sizeof(kind) > ffi.sizeof("int")
        link.lib.impi_handle_later(
            self._address, int(ffi.cast("intptr_t", number)), wide, outgoing(code)
        )
