from __future__ import annotations

import copy
import gc
import pickle

import pytest

from impi.rank.api.comms.groups import GROUP_EMPTY, GROUP_NULL, Group
from impi.rank.api.handles.errhandler import ERRHANDLER_NULL, ERRORS_RETURN
from impi.rank.api.handles.handle import Handle
from impi.rank.api.handles.info import INFO_ENV, INFO_NULL, Info
from impi.rank.api.types.datatypes import BYTE, DATATYPE_NULL, INT, Datatype
from impi.rank.api.types.ops import OP_NULL, SUM, Op


def _name_of(handle: Handle) -> str:
    return f"{type(handle).__name__}-{'null' if not handle else 'constant'}"


NULLS = [DATATYPE_NULL, ERRHANDLER_NULL, GROUP_NULL, INFO_NULL, OP_NULL]
CONSTANTS = [INT, ERRORS_RETURN, GROUP_EMPTY, INFO_ENV, SUM]


class MyInfo(Info):
    pass


@pytest.mark.parametrize("handle", NULLS, ids=_name_of)
def test_null(handle: Handle) -> None:
    assert not handle
    assert handle.handle == 0
    new = type(handle)()
    assert new == handle
    assert new is not handle
    assert type(handle).fromhandle(0) == handle
    handle.free()
    assert [other for other in NULLS if other == handle] == [handle]


@pytest.mark.parametrize("handle", CONSTANTS, ids=_name_of)
def test_constant(handle: Handle) -> None:
    assert handle
    assert handle.handle > 0
    assert type(handle).fromint(handle.toint()) == handle
    assert type(handle).f2py(handle.py2f()) == handle
    handle.free()
    assert handle
    clone = type(handle)(handle)
    assert clone == handle
    clone.free()
    assert not clone
    clone.free()
    assert handle


@pytest.mark.parametrize("handle", NULLS + CONSTANTS, ids=_name_of)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_constants_are_pickled_by_name(handle: Handle, protocol: int) -> None:
    assert pickle.loads(pickle.dumps(handle, protocol)) is handle
    again = pickle.loads(pickle.dumps(type(handle)(handle), protocol))
    assert again == handle
    assert again is not handle
    assert copy.copy(handle) is handle
    assert copy.deepcopy(handle) is handle


def test_the_class_of_a_subclass_is_kept() -> None:
    again = pickle.loads(pickle.dumps(MyInfo(INFO_ENV)))  # type: ignore[arg-type]
    assert type(again) is MyInfo
    assert again == INFO_ENV


def test_only_handles_of_the_same_kind() -> None:
    for wrong in (INFO_NULL, 1234, "abc"):
        with pytest.raises(TypeError):
            Datatype(wrong)  # type: ignore[arg-type]
    assert BYTE != SUM
    assert BYTE != 5


def test_no_order_and_no_hash() -> None:
    with pytest.raises(TypeError):
        INT < BYTE  # type: ignore[operator]
    with pytest.raises(TypeError):
        hash(INT)


def test_the_integer_handle_cannot_be_set_and_dies_with_the_object() -> None:
    info = Info.Create()
    number = info.handle
    assert Info.fromhandle(number) == info
    with pytest.raises(AttributeError):
        info.handle = 3  # type: ignore[misc]
    info.Free()
    del info
    gc.collect()
    with pytest.raises(ValueError, match="not a handle"):
        Info.fromhandle(number)


def test_freeing_one_handle_leaves_the_others() -> None:
    op = Op.Create(lambda a, b, t: None)
    other = Op(op)
    op.free()
    assert not op
    assert other


def test_what_has_no_name_cannot_be_pickled() -> None:
    with pytest.raises(ValueError, match="cannot serialize"):
        pickle.dumps(Group._of([0, 1], 0))
