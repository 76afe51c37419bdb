from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest

from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values.op import OPS
from impi.rank.api.constants import ERR_OP
from impi.rank.api.types import ops as O
from impi.rank.api.types.datatypes import BYTE, DOUBLE_INT, INT, Datatype
from impi.rank.api.types.ops import MAX_USER_OPS, OP_NULL, SUM, Op


def add(a: Any, b: Any, datatype: Datatype | None) -> Any:
    if datatype is None:
        return a + b
    np.frombuffer(b, "i4")[:] += np.frombuffer(a, "i4")
    return None


@pytest.fixture
def mine() -> Any:
    op = Op.Create(add, commute=True)
    yield op
    op.free()


@pytest.mark.parametrize(
    ("name", "x", "y", "expected"),
    [
        ("MAX", [1], [2], [2]),
        ("MIN", "a", "b", "a"),
        ("SUM", [1], [2], [1, 2]),
        ("PROD", 3, 4, 12),
        ("LAND", 5, 0, False),
        ("LOR", 5, 0, True),
        ("LXOR", 5, 3, False),
        ("BAND", {1, 2}, {2, 3}, {2}),
        ("BOR", 5, 3, 7),
        ("BXOR", 5, 3, 6),
        ("MAXLOC", (1, 2), (3, 4), (3, 4)),
        ("MAXLOC", (3, 4), (3, 2), (3, 2)),
        ("MAXLOC", (3, 2), (1, 0), (3, 2)),
        ("MINLOC", (1, 2), (3, 0), (1, 2)),
        ("MINLOC", (3, 4), (3, 2), (3, 2)),
        ("MINLOC", (3, 4), (1, 9), (1, 9)),
        ("REPLACE", 1, 2, 2),
        ("NO_OP", 1, 2, 1),
    ],
)
def test_on_objects(name: str, x: Any, y: Any, expected: Any) -> None:
    assert getattr(O, name)(x, y) == expected
    assert Op(getattr(O, name))(x, y) == expected


def test_equal_objects_keep_the_first() -> None:
    x, y = [1], [1]
    assert O.MAX(x, y) is x
    assert O.MIN(x, y) is x


def test_predefined() -> None:
    for name in OPS:
        op = getattr(O, name)
        assert op.is_predefined
        assert op._predefined_name() == name
        assert (
            op.Is_commutative()
            is op.is_commutative
            is (name not in ("REPLACE", "NO_OP"))
        )
    with pytest.raises(MPIException) as caught:
        SUM.Free()
    assert caught.value == ERR_OP


def test_null() -> None:
    assert OP_NULL.is_predefined
    with pytest.raises(ValueError, match="null"):
        OP_NULL(1, 2)
    for call in (OP_NULL.Free, OP_NULL.Is_commutative):
        with pytest.raises(MPIException):
            call()


def test_ones_own(mine: Op) -> None:
    assert not mine.is_predefined
    assert mine._predefined_name() is None
    assert mine.Is_commutative()
    assert mine([1], [2]) == [1, 2]
    again = copy.copy(Op(mine))
    assert again == mine or again([1], [2]) == [1, 2]
    again.free()
    with pytest.raises(TypeError):
        Op.Create(None)  # type: ignore[arg-type]


def test_ones_own_is_pickled_by_its_function() -> None:
    op = Op.Create(add, commute=True)
    again = pickle.loads(pickle.dumps(op))
    assert again != op
    op.Free()
    assert again([1], [2]) == [1, 2]
    assert again.Is_commutative()
    again.Free()


def test_an_integer_handle_carries_no_function(mine: Op) -> None:
    with pytest.raises(ValueError, match="cannot pickle"):
        Op.fromint(mine.toint()).__reduce__()


def test_there_is_a_limit_and_freeing_helps() -> None:
    ops: list[Op] = []
    with pytest.raises(RuntimeError, match=f"more than {MAX_USER_OPS}"):
        while len(ops) <= MAX_USER_OPS:
            ops.append(Op.Create(add))
    for op in ops:
        op.Free()
    Op.Create(add).Free()


class TestReduceLocal:
    def test_predefined(self) -> None:
        a, b = np.arange(3, dtype="i4"), np.full(3, 10, "i4")
        SUM.Reduce_local(a, [b, INT])
        assert b.tolist() == [10, 11, 12]

    def test_pairs(self) -> None:
        a, b = (
            np.zeros(2, DOUBLE_INT.typemap.dtype),
            np.zeros(2, DOUBLE_INT.typemap.dtype),
        )
        a["value"], a["index"], b["index"] = [1, -1], 3, 5
        O.MAXLOC.Reduce_local([a.view("u1"), DOUBLE_INT], [b.view("u1"), DOUBLE_INT])
        assert b.tolist() == [(1, 3), (0, 5)]

    def test_ones_own_gets_buffers_and_the_type(self, mine: Op) -> None:
        a, b = np.arange(4, dtype="i4"), np.full(4, 10, "i4")
        mine.Reduce_local([a, 2], [b, 2])
        assert b.tolist() == [10, 11, 10, 10]

    def test_nothing(self) -> None:
        SUM.Reduce_local([b"", INT], [bytearray(), INT])

    def test_refusals(self) -> None:
        with pytest.raises(ValueError, match="count"):
            SUM.Reduce_local([bytes(8), INT], [bytearray(4), INT])
        with pytest.raises(ValueError, match="datatypes"):
            SUM.Reduce_local([bytes(4), BYTE], [bytearray(16), 4, INT])
        with pytest.raises(MPIException, match="MPI_SUM is not defined"):
            SUM.Reduce_local([bytes(4), BYTE], [bytearray(4), BYTE])
        with pytest.raises(
            MPIException, match="MPI_REPLACE is for one-sided communication only"
        ):
            O.REPLACE.Reduce_local([bytes(4), INT], [bytearray(4), INT])

    def test_octets_are_numbers(self) -> None:
        both = bytearray(b"\xff\2\3")
        SUM.Reduce_local(b"\2\2\2", both)
        assert both == b"\1\4\5"
        letters = np.array([b"a", b"b"], "S1")
        O.MAX.Reduce_local(np.array([b"b", b"\xff"], "S1"), letters)
        assert letters.tolist() == [b"b", b"b"]
