"""Attributes of a program: pointers, functions of keyvals, and predefined values by address."""

from __future__ import annotations

import pytest
from linked_world import MPI, address, ffi, number

from impi.cabi.calls import attribute_calls
from impi.cabi.calls.attribute_calls import Typed, get, get_number, keyval, put
from impi.protocol.semantics.errors import MPIException

NONE = 0


@pytest.fixture
def owner():
    made = MPI.INT.Dup()
    yield made
    made.Free()


def read(owner, key):
    place, flag = ffi.new("intptr_t *"), ffi.new("int *")
    get(owner, key, address(place), flag)
    return place[0] if flag[0] else None


def test_a_pointer_is_kept_and_deleted(owner):
    deleted = []
    delete = ffi.callback(
        "int(MPI_Datatype, int, intptr_t, intptr_t)",
        lambda _t, key, value, extra: deleted.append((value, extra)) or 0,
    )
    key = keyval("Type", NONE, address(delete), 77)
    assert read(owner, key) is None
    put(owner, key, 1234)
    assert read(owner, key) == 1234
    owner.Delete_attr(key)
    assert (read(owner, key), deleted) == (None, [(1234, 77)])
    place = ffi.new("int *", key)
    attribute_calls.free_keyval("Type", place)
    assert place[0] == number("KEYVAL_INVALID")


@pytest.mark.parametrize(("flag", "kept"), [(1, 5001), (0, None)])
def test_the_copy_function_decides_what_a_duplicate_has(owner, flag, kept):
    def copy(_type, _key, _extra, value, out, wanted):
        out[0], wanted[0] = value + 1, flag
        return 0

    function = ffi.callback(
        "int(MPI_Datatype, int, intptr_t, intptr_t, intptr_t *, int *)", copy
    )
    key = keyval("Type", address(function), NONE, 0)
    put(owner, key, 5000)
    other = owner.Dup()
    assert read(other, key) == kept
    other.Free()


def test_a_function_that_fails_refuses(owner):
    results = [0, number("ERR_OTHER")]  # the owner is freed at last
    function = ffi.callback(
        "int(MPI_Datatype, int, intptr_t, intptr_t)", lambda *_: results.pop()
    )
    key = keyval("Type", NONE, address(function), 0)
    put(owner, key, 1)
    with pytest.raises(MPIException) as failure:
        owner.Delete_attr(key)
    assert failure.value.Get_error_class() == MPI.ERR_OTHER


def test_predefined_attributes_cannot_be_changed():
    with pytest.raises(MPIException, match="is predefined and cannot be changed"):
        put(MPI.COMM_SELF, number("TAG_UB"), 1)


def test_c_gets_the_address_of_what_fortran_has_set(owner):
    key = keyval("Type", NONE, NONE, 0)
    for kind, cell in ((3, "int *"), (1, "intptr_t *")):
        put(owner, key, Typed.of(41, kind))
        assert ffi.cast(cell, read(owner, key))[0] == 41
        place, flag = ffi.new("intptr_t *"), ffi.new("int *")
        get_number(owner, key, address(place), flag)
        assert (place[0], flag[0]) == (41, 1), "Fortran gets the number itself"
    assert type(Typed.of(41, 0)) is int, "a pointer"
