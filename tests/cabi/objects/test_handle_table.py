"""A table of handles: predefined numbers, new ones, and what becomes of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import linked_world as world
import pytest
from linked_world import ffi, number

from impi.cabi.objects.handle_table import Comms, Datatypes, Table
from impi.protocol.semantics.errors import MPIException

FIRST = 0x10000


class State:
    """A stand-in for a communicator, with its parts; it has the identity of an object."""

    def __init__(self, rank: int, members: list[int]) -> None:
        self.context = SimpleNamespace(rank=rank, members=members, is_inter=False)


def thing(state: object) -> Any:
    return SimpleNamespace(_state=state)


@pytest.fixture
def table() -> Table:
    return Table(
        "GROUP",
        {
            "GROUP_NULL": thing(None),
            "GROUP_EMPTY": thing("empty"),
            "NO_SUCH_CONSTANT": thing("x"),
        },
    )


def test_predefined_objects_have_the_numbers_of_the_abi(table: Table):
    assert table.null == number("GROUP_NULL")
    assert table.put(thing(None)) == table.null
    assert table.put(thing("empty")) == number("GROUP_EMPTY")
    assert set(table) == {number("GROUP_NULL"), number("GROUP_EMPTY")}


def test_a_new_object_has_one_number_until_it_is_gone(table: Table):
    item = thing("new")
    given = table.put(item)
    assert given >= FIRST
    assert table.number_of(item) == table.known(thing("new")) == given
    assert table.each([given, table.null])[0] is item
    place = ffi.new("MPI_Group *", given)
    table.settle(place, item)
    assert place[0] == given, "it is still there"
    item._state = None
    table.settle(place, item)
    assert place[0] == table.null
    with pytest.raises(
        MPIException, match="is not a group: it is not initialised, or it was freed"
    ) as failure:
        table[given]
    assert failure.value.Get_error_class() == world.MPI.ERR_GROUP
    assert table.put(thing("another")) == given, "a number that is free is used again"


def test_a_failed_call_may_have_freed_the_object(table: Table):
    item = thing("mine")
    place = ffi.new("MPI_Group *", table.put(item))
    item._state = None
    table.settle_failed(place)
    assert place[0] == table.null
    table.settle_failed(ffi.NULL)
    place[0] = 12345
    table.settle_failed(place)
    assert place[0] == 12345, "no object of ours"


def test_predefined_numbers_stay(table: Table):
    table.drop(number("GROUP_EMPTY"))
    assert number("GROUP_EMPTY") in table


def test_c_knows_ranks_and_sizes_of_communicators():
    table = Comms("COMM", {})
    given = table.put(thing(State(2, [7, 8, 9])))
    assert world.library.known[given] == (2, 3, False)
    table.drop(given)
    assert world.library.known[given] == (-1, 0, 0)


def test_c_knows_octets_that_fit_an_int():
    table = Datatypes("TYPE", {})
    for size, told in ((8, (8, 1, 0)), (1 << 31, None)):
        world.library.known.clear()
        item = SimpleNamespace(_state=f"of {size}", typemap=SimpleNamespace(size=size))
        assert world.library.known.get(table.put(item)) == told
