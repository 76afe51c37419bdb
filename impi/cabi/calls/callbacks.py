"""Functions of the program that MPI calls: reductions and generalized requests."""

from __future__ import annotations

from impi.cabi.calls.request_calls import read, store
from impi.cabi.objects import handle_tables, link
from impi.cabi.objects.failures import incoming
from impi.cabi.objects.handle_tables import datatypes
from impi.cabi.objects.link import MPI, Object, Pointer, ffi
from impi.protocol.semantics.errors import error


def operation(function: int, commute: bool, large: bool) -> Object:
    """Return an operation that calls a C function with two addresses, a count and a datatype."""
    return handle_tables.new_op(_Operation(function, "int64_t" if large else "int"), commute=commute)


class _Operation:
    """The function of an operation; in Fortran it gets the datatype's number there."""

    def __init__(self, function: int, count: str) -> None:
        self._call = ffi.cast(f"void (*)(intptr_t, intptr_t, {count} *, intptr_t)", function)
        self._count = f"{count} *"
        self.fortran = False

    def __call__(self, invec: Pointer, inoutvec: Pointer, datatype: Object) -> None:
        typemap = datatype.typemap
        first = typemap.true_lb if typemap.true_lb < 0 else 0
        # The last element may lack the gap behind it.
        count = -(-memoryview(inoutvec).nbytes // typemap.extent) if typemap.extent else 0
        number = datatypes.number_of(datatype)
        # Cells of this call alone: other threads may be in the function, too.
        if self.fortran:
            place = ffi.new("int *", link.lib.impi_fortran_number(1, number))
        else:
            place = ffi.new("MPI_Datatype *")
            place[0] = number
        at = int(ffi.cast("intptr_t", place))
        self._call(invec.address - first, inoutvec.address - first, ffi.new(self._count, count), at)


class _Functions:
    """The functions of a generalized request; in Fortran they get addresses alone."""

    def __init__(self, query: int, free: int, cancel: int, extra: int) -> None:
        self._query, self._free, self._cancel, self._extra = query, free, cancel, extra
        self.fortran = False

    def query(self, status: Pointer) -> None:
        memory = ffi.new("char[]", link.lib.IMPI_STATUS_SIZE)
        place = int(ffi.cast("intptr_t", memory))
        store(status, place, 0)
        self._call(self._query, "intptr_t", place)
        status._row[:] = read(place)._row

    def free(self) -> None:
        self._call(self._free, "")

    def cancel(self, completed: bool) -> None:
        self._call(self._cancel, "int", ffi.new("int *", completed) if self.fortran else completed)

    def _call(self, function: int, kind: str, *given: Pointer) -> None:
        row = ["intptr_t", *filter(None, [kind])]
        if self.fortran:
            result = ffi.new("int *")
            row = ["intptr_t", *(each if each == "intptr_t" else f"{each} *" for each in row[1:]), "int *"]
            ffi.cast(f"void (*)({', '.join(row)})", function)(self._extra, *given, result)
            code = result[0]
        else:
            code = ffi.cast(f"int (*)({', '.join(row)})", function)(self._extra, *given)
        if code:
            raise error(incoming(code), f"a function of the generalized request returned {code}")


# The generalized request that was started last: its language is told after its start.
_latest: list[tuple[Object, _Functions]] = []


def generalized(query: int, free: int, cancel: int, extra: int) -> Object:
    """Return a generalized request whose functions are C's."""
    functions = _Functions(query, free, cancel, extra)
    request = MPI.Grequest.Start(functions.query, functions.free, functions.cancel)
    _latest[:] = [(request._state, functions)]
    return request


def speaks_fortran(request: Object) -> None:
    """Note that the functions of the request that was started last are Fortran's."""
    for state, functions in _latest:
        functions.fortran = functions.fortran or state is request._state
