"""Functions of the program that MPI calls: reductions and generalized requests.

Python calls these C functions by their addresses, with cffi, while its own frames are on the stack.
So they may not throw or jump away, as error handlers may (:mod:`impi.cabi.objects.failures`).

Whether a function is written in Fortran is known only after its object exists: the Fortran library
makes the object by C's function and then says so. Hence the flag ``fortran``, which is set later.
"""

from __future__ import annotations

from impi.cabi.calls.request_calls import read, store
from impi.cabi.objects import handle_tables, link
from impi.cabi.objects.failures import incoming
from impi.cabi.objects.handle_tables import datatypes
from impi.cabi.objects.link import MPI, Object, Pointer, ffi
from impi.protocol.semantics.errors import error


def operation(function: int, commute: bool, large: bool) -> Object:
    """Return an operation that calls a C function.

    Args:
        function: address of a function of two buffers, a count and a datatype, all by address.
        commute: whether the operation commutes.
        large: whether the count is an MPI_Count.
    """
    return handle_tables.new_op(
        _Operation(function, "int64_t" if large else "int"), commute=commute
    )


class _Operation:
    """The function of an operation; one in Fortran gets Fortran's number of the datatype."""

    def __init__(self, function: int, count: str) -> None:
        self._call = ffi.cast(
            f"void (*)(intptr_t, intptr_t, {count} *, intptr_t)", function
        )
        self._count = f"{count} *"
        self.fortran = False

    def __call__(self, invec: Pointer, inoutvec: Pointer, datatype: Object) -> None:
        typemap = datatype.typemap
        # A buffer here begins at a negative lower bound; C expects the address of displacement 0.
        first = typemap.true_lb if typemap.true_lb < 0 else 0
        # Rounded up: the buffer ends with the data of the last element, not with its extent.
        count = (
            -(-memoryview(inoutvec).nbytes // typemap.extent) if typemap.extent else 0
        )

        number = datatypes.number_of(datatype)
        # Cells for each call: other threads may be in the function at the same time.
        if self.fortran:
            place = ffi.new("int *", link.lib.impi_fortran_number(1, number))
        else:
            place = ffi.new("MPI_Datatype *")
            place[0] = number

        at = int(ffi.cast("intptr_t", place))
        self._call(
            invec.address - first,
            inoutvec.address - first,
            ffi.new(self._count, count),
            at,
        )


class _Functions:
    """The functions of a generalized request; those in Fortran get every argument by address."""

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
        self._call(
            self._cancel,
            "int",
            ffi.new("int *", completed) if self.fortran else completed,
        )

    def _call(self, function: int, kind: str, *given: Pointer) -> None:
        row = ["intptr_t", *filter(None, [kind])]
        if self.fortran:
            # Fortran returns its code through a last argument, and C as the function's value.
            result = ffi.new("int *")
            row = [
                "intptr_t",
                *(each if each == "intptr_t" else f"{each} *" for each in row[1:]),
                "int *",
            ]
            ffi.cast(f"void (*)({', '.join(row)})", function)(
                self._extra, *given, result
            )
            code = result[0]
        else:
            code = ffi.cast(f"int (*)({', '.join(row)})", function)(self._extra, *given)

        if code:
            raise error(
                incoming(code), f"a function of the generalized request returned {code}"
            )


# The generalized request that was started last. The Fortran library names its language right after
# the start, when the program has no handle of it yet: so one is enough.
_latest: list[tuple[Object, _Functions]] = []


def generalized(query: int, free: int, cancel: int, extra: int) -> Object:
    """Start a generalized request with C functions, given by address (MPI_Grequest_start)."""

    functions = _Functions(query, free, cancel, extra)
    request = MPI.Grequest.Start(functions.query, functions.free, functions.cancel)
    _latest[:] = [(request._state, functions)]

    return request


def speaks_fortran(request: Object) -> None:
    """Note that the functions of a request are written in Fortran; it is the one started last."""
    for state, functions in _latest:
        functions.fortran = functions.fortran or state is request._state
