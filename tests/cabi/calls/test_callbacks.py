"""Functions of the program that MPI calls: reductions, and those of generalized requests."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from linked_world import MPI, address, ffi, number

from impi.cabi.calls import callbacks
from impi.protocol.semantics.errors import MPIException


@pytest.mark.parametrize(("large", "count"), [(False, "int"), (True, "int64_t")])
def test_a_reduction_gets_addresses_count_and_datatype(large, count):
    told = []

    def add(invec, inoutvec, length, datatype):
        told.append((length[0], datatype[0]))
        one, other = (ffi.cast("int *", place) for place in (invec, inoutvec))
        for i in range(length[0]):
            other[i] += one[i]

    function = ffi.callback(f"void(intptr_t, intptr_t, {count} *, MPI_Datatype *)", add)
    op = callbacks.operation(address(function), True, large)
    one, other = bytearray(b"\1\0\0\0\2\0\0\0"), bytearray(b"\3\0\0\0\4\0\0\0")
    op.Reduce_local([one, MPI.INT], [other, MPI.INT])
    assert told == [(2, number("INT"))]
    assert bytes(other) == b"\4\0\0\0\6\0\0\0"


def test_in_fortran_a_reduction_gets_the_datatypes_number():
    told = []
    function = ffi.callback(
        "void(intptr_t, intptr_t, int *, int *)",
        lambda _a, _b, _n, kind: told.append(kind[0]),
    )
    op = callbacks.operation(address(function), True, False)
    op._state.function.fortran = True
    op.Reduce_local([bytearray(4), MPI.INT], [bytearray(4), MPI.INT])
    assert told == [-number("INT")]


def functions(result=0):
    """The functions of a generalized request, the calls that they got, and what keeps them."""
    told = []

    def note(name):
        def call(*given):
            told.append((name, given[0], len(given)))
            return result

        return call

    kept = [
        ffi.callback("int(intptr_t, intptr_t)", note("query")),
        ffi.callback("int(intptr_t)", note("free")),
        ffi.callback("int(intptr_t, int)", note("cancel")),
    ]
    query, free, cancel = map(address, kept)
    return callbacks._Functions(query, free, cancel, 55), told, kept


def test_functions_of_a_generalized_request():
    made, told, _kept = functions()
    made.query(MPI.Status())
    made.cancel(True)
    made.free()
    assert told == [("query", 55, 2), ("cancel", 55, 2), ("free", 55, 1)]


def test_their_failure_is_the_requests():
    made, _told, _kept = functions(number("ERR_OTHER"))
    with pytest.raises(
        MPIException, match="a function of the generalized request returned"
    ):
        made.free()


def test_only_the_latest_request_speaks_fortran(monkeypatch):
    one, other = SimpleNamespace(fortran=False), SimpleNamespace(fortran=False)
    monkeypatch.setattr(callbacks, "_latest", [("state", one), ("another", other)])
    callbacks.speaks_fortran(SimpleNamespace(_state="state"))
    assert (one.fortran, other.fortran) == (True, False)
