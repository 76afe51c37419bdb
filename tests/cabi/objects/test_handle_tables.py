"""The tables of a program, and what it may free."""

from __future__ import annotations

import linked_world as world
import pytest
from linked_world import MPI, ffi, number

from impi.cabi.objects import handle_tables
from impi.protocol.semantics.errors import MPIException


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("comms", "COMM_WORLD"),
        ("datatypes", "DOUBLE"),
        ("errhandlers", "ERRORS_RETURN"),
        ("groups", "GROUP_EMPTY"),
        ("infos", "INFO_ENV"),
        ("ops", "SUM"),
        ("requests", "REQUEST_NULL"),
        ("wins", "WIN_NULL"),
    ],
)
def test_every_constant_of_the_abi_is_an_object(table, name):
    assert getattr(handle_tables, table)[number(name)] == getattr(MPI, name)


def test_c_knows_the_octets_of_predefined_datatypes():
    handle_tables.datatypes.know(number("INT"), MPI.INT)
    assert world.library.known[number("INT")] == (4, 1, 0)
    pair = handle_tables.datatypes[number("2REAL")]
    assert pair.Get_size() == 8


def test_operations():
    with pytest.raises(MPIException, match="MPI_SUM is predefined and cannot be freed"):
        handle_tables.release_op(MPI.SUM)
    mine = handle_tables.new_op(lambda _in, _inout, _datatype: None, commute=True)
    assert mine.Is_commutative()
    handle_tables.release_op(mine)
    assert mine == MPI.OP_NULL


def test_a_message_is_gone_after_its_receive():
    place = ffi.new("MPI_Message *", number("MESSAGE_NO_PROC"))
    handle_tables.messages.settle(place, MPI.MESSAGE_NO_PROC)
    assert place[0] == number("MESSAGE_NULL")


def test_groups():
    with pytest.raises(MPIException, match="null group"):
        handle_tables.release_group(MPI.Group())
    handle_tables.release_group(MPI.GROUP_EMPTY)
    assert MPI.GROUP_EMPTY.Get_size() == 0, "the constant itself stays"
