"""Datatypes in C: packing by address, and the arguments of a constructor as rows."""

from __future__ import annotations

import pytest
from linked_world import MPI, ffi, number

from impi.cabi.calls import type_calls
from impi.cabi.objects.handle_tables import datatypes
from impi.cabi.objects.program_memory import message
from impi.protocol.semantics.errors import MPIException


def ints(*values):
    return ffi.new("int[]", list(values))


def row(values):
    return message(ffi.cast("char *", values), len(values), number("INT"))


def test_a_freed_datatype_is_gone_and_its_object_lives():
    made = MPI.INT.Create_contiguous(2)
    place = ffi.new("MPI_Datatype *", datatypes.put(made))
    before = place[0]
    type_calls.free(place)
    assert (place[0], before in datatypes) == (number("DATATYPE_NULL"), False)
    assert made.Get_size() == 8


def test_packed_as_external32_and_back():
    out, position = ffi.new("char[16]"), ints(3)
    type_calls.pack(row(ints(1, 2)), out, 16, position, "external32")
    assert (position[0], bytes(ffi.buffer(out))[3:11]) == (11, b"\0\0\0\1\0\0\0\2")
    found, position = ints(0, 0), ints(3)
    type_calls.unpack(out, 16, position, row(found), "external32")
    assert (list(found), position[0]) == ([1, 2], 11)


@pytest.mark.parametrize("first", [-1, 9])
def test_what_does_not_fit(first):
    with pytest.raises(
        MPIException, match=f"8 octets at position {first} do not fit into 16"
    ):
        type_calls.pack(
            row(ints(1, 2)), ffi.new("char[16]"), 16, ints(first), "external32"
        )


def test_the_arguments_of_a_constructor():
    vector = MPI.INT.Create_vector(2, 3, 4)
    count = type_calls.envelope(vector)
    assert count == (3, 0, 1, MPI.COMBINER_VECTOR)
    integers, addresses, types = (
        ints(0, 0, 0),
        ffi.new("intptr_t[1]"),
        ffi.new("MPI_Datatype[1]"),
    )
    type_calls.contents(vector, integers, addresses, types, (3, 1, 1))
    assert (list(integers), types[0]) == ([2, 3, 4], number("INT"))
    with pytest.raises(MPIException, match="there is room for"):
        type_calls.contents(vector, integers, addresses, types, (2, 1, 1))
    with pytest.raises(MPIException, match="a named datatype has no contents"):
        type_calls.contents(MPI.INT, integers, addresses, types, (3, 1, 1))


def test_displacements_in_octets_are_addresses():
    made = MPI.INT.Create_hindexed([1, 2], [0, 1 << 33])
    assert type_calls.envelope(made) == (3, 2, 1, MPI.COMBINER_HINDEXED)
    integers, addresses, types = (
        ints(0, 0, 0),
        ffi.new("intptr_t[2]"),
        ffi.new("MPI_Datatype[1]"),
    )
    type_calls.contents(made, integers, addresses, types, (3, 2, 1))
    assert (list(integers), list(addresses)) == ([2, 1, 2], [0, 1 << 33])


def test_names():
    assert type_calls.name(MPI.LONG_LONG) == "MPI_LONG_LONG_INT"
    assert type_calls.name(MPI.INT) == "MPI_INT"


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize("abi", ["mpich", "openmpi", "standard"])
@pytest.mark.parametrize("mode", ["", "--stand-in"])
def test_constants_come_back_once_and_large_numbers_are_undefined(
    compiled, run_job, abi, mode
):
    done = run_job(
        [compiled("limits", abi)],
        ["mpich:1", "openmpi:1"],
        options=dict.fromkeys((0, 1), mode.split()),
    )
    assert done.codes == [0, 0, 0], done
    assert sorted(done.out.splitlines()) == ["rank 0: 0 wrong", "rank 1: 0 wrong"]
