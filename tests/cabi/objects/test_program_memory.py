"""The memory of a program: addresses as buffers, and strings."""

from __future__ import annotations

import pytest
from linked_world import MPI, address, ffi, number

from impi.cabi.objects import handle_tables, program_memory
from impi.cabi.objects.program_memory import block, blocks_of, message, ranges_of
from impi.protocol.semantics.errors import MPIException


def octets(buffer):
    return bytes(getattr(buffer, "view", buffer))


def test_a_message_is_the_programs_own_memory():
    row = ffi.new("int[4]", [1, 2, 3, 4])
    found = message(ffi.cast("char *", row), 3, number("INT"))
    assert octets(found) == bytes(ffi.buffer(row, 12))
    row[0] = 9
    assert octets(found) == bytes(ffi.buffer(row, 12)), "no copy"


def test_a_buffer_covers_what_mpi_may_touch():
    row = ffi.new("int[8]")
    vector = MPI.INT.Create_vector(2, 1, 3).Commit()
    found = message(ffi.cast("char *", row), 1, handle_tables.datatypes.put(vector))
    assert len(octets(found)) == 16, "from the first int to the end of the second"


@pytest.mark.parametrize(
    ("count", "name", "place", "kind"),
    [
        (-1, "INT", True, "ERR_COUNT"),
        (1, "DATATYPE_NULL", True, "ERR_TYPE"),
        (1, "INT", False, "ERR_BUFFER"),
    ],
)
def test_what_is_no_message(count, name, place, kind):
    at = ffi.cast("char *", ffi.new("int[4]")) if place else ffi.cast("char *", 0)
    with pytest.raises(MPIException) as failure:
        message(at, count, number(name))
    assert failure.value.Get_error_class() == getattr(MPI, kind)


def test_no_elements_need_no_memory():
    assert octets(message(ffi.cast("char *", 0), 0, number("INT"))) == b""


def test_in_place_is_an_address():
    place = ffi.cast("char *", number("IN_PLACE"))
    assert block(place, 1, number("INT"), 2) is MPI.IN_PLACE
    assert blocks_of(place, ffi.NULL, ffi.NULL, number("INT"), 2, False) is MPI.IN_PLACE


def test_blocks_have_their_own_places():
    row = ffi.new("int[10]", list(range(10)))
    counts, displs = ffi.new("int[3]", [1, 0, 2]), ffi.new("int[3]", [4, 99, 7])
    found = blocks_of(ffi.cast("char *", row), counts, displs, number("INT"), 3, False)
    assert octets(found) == bytes(ffi.buffer(row, 40))[16:36], (
        "an empty block's place may be anything"
    )


def test_no_op_ignores_the_origin():
    assert octets(program_memory.origin(ffi.NULL, 5, number("INT"), MPI.NO_OP)) == b""


def test_ranges():
    assert ranges_of(ffi.new("int[6]", [0, 4, 2, 5, 5, 1]), 2) == [(0, 4, 2), (5, 5, 1)]
    assert ranges_of(ffi.NULL, 0) == []


def test_allocated_memory_is_freed_once():
    place = ffi.new("intptr_t *")
    program_memory.allocate(10, place)
    base = ffi.cast("char *", place[0])
    program_memory.release(base)
    with pytest.raises(MPIException, match="is not an address that MPI_Alloc_mem gave"):
        program_memory.release(base)
    program_memory.release(ffi.cast("char *", 0))


def test_an_attached_buffer_comes_back():
    room = ffi.new("char[64]")
    kept = program_memory.attached(room, 64)
    place, size = ffi.new("intptr_t *"), ffi.new("int *")
    program_memory.detached(place, size, kept)
    assert (place[0], size[0]) == (address(room), 64)


def test_strings():
    place, length = ffi.new("char[32]"), ffi.new("int *")
    program_memory.write_text(place, "näme", length)
    assert program_memory.text(place) == "näme"
    assert length[0] == 5
    with pytest.raises(MPIException, match="a string is NULL"):
        program_memory.text(ffi.NULL)


def test_values_of_infos_are_cut_to_their_room():
    info = MPI.Info.Create({"key": "value"})
    place, flag = ffi.new("char[32]"), ffi.new("int *")
    program_memory.info_get(info, "key", 3, place, flag)
    assert (ffi.string(place), flag[0]) == (b"val", 1)
    room = ffi.new("int *", 4)
    program_memory.info_get_string(info, "key", room, place, flag)
    assert (ffi.string(place), room[0], flag[0]) == (b"val", 6, 1)
    program_memory.info_get_valuelen(info, "key", room, flag)
    assert room[0] == 5
    program_memory.info_get_valuelen(info, "none", room, flag)
    assert (room[0], flag[0]) == (5, 0)
