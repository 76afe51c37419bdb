from __future__ import annotations

import pickle
import struct
from typing import Any

import numpy as np
import pytest

from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values.datatype import NAMED
from impi.rank.api.constants import BOTTOM, ERR_ARG, ERR_TRUNCATE, ERR_TYPE
from impi.rank.api.types import datatypes as D
from impi.rank.api.types.datatypes import DATATYPE_NULL, DOUBLE, INT, Datatype


def test_every_predefined_one_has_its_constant_and_name() -> None:
    for name in NAMED:
        datatype = getattr(D, name)
        assert datatype.typemap is NAMED[name]
        assert datatype.is_named
        assert datatype.is_predefined
        assert datatype.Get_name() == (
            "MPI_2INT" if name == "INT_INT" else f"MPI_{name}"
        )
    assert [name for name in D.__all__ if not hasattr(D, name)] == []


def test_other_names_are_the_same_type() -> None:
    assert D.TWOINT is D.INT_INT
    assert D.FLOAT64_T is D.DOUBLE
    assert D.BOOL is D.C_BOOL
    assert D.F_DOUBLE is D.DOUBLE_PRECISION


def test_null() -> None:
    assert DATATYPE_NULL.Get_name() == "MPI_DATATYPE_NULL"
    assert DATATYPE_NULL.is_predefined
    for call in (
        DATATYPE_NULL.Get_size,
        DATATYPE_NULL.Commit,
        DATATYPE_NULL.Dup,
        DATATYPE_NULL.Free,
    ):
        with pytest.raises(MPIException) as caught:
            call()
        assert caught.value == ERR_TYPE


def test_sizes() -> None:
    made = Datatype.Create_struct([1, 1], [4, 16], [INT, DOUBLE])
    assert (made.size, made.lb, made.ub, made.extent) == (12, 4, 28, 24)
    assert (made.true_lb, made.true_ub, made.true_extent) == (4, 24, 20)
    assert made.Get_extent() == (made.lb, made.extent)
    assert made.Get_true_extent() == (4, 20)


def test_free() -> None:
    made = INT.Dup().Commit()
    made.Free()
    assert made == DATATYPE_NULL
    with pytest.raises(MPIException) as caught:
        INT.Free()
    assert caught.value == ERR_TYPE
    assert INT


def test_names() -> None:
    made = INT.Dup()
    assert made.name == ""
    made.name = "mine"
    assert Datatype(made).Get_name() == "mine"
    with pytest.raises(MPIException):
        made.Set_name("x" * 129)


@pytest.mark.parametrize(
    "made",
    [
        INT.Dup(),
        INT.Create_contiguous(3),
        INT.Create_vector(2, 1, 3),
        DOUBLE.Create_hvector(2, 1, 24),
        INT.Create_indexed([1, 2], [0, 3]),
        INT.Create_hindexed([1, 2], [0, 12]),
        INT.Create_indexed_block(2, [0, 5]),
        INT.Create_hindexed_block(2, [0, 20]),
        Datatype.Create_struct([1, 2], [0, 8], [INT, DOUBLE]),
        INT.Create_subarray([4, 5], [2, 3], [1, 1]),
        INT.Create_darray(2, 0, [4], [121], [-49767], [2]),
        INT.Create_resized(0, 12),
        Datatype.Create_f90_real(6, 30),
        DOUBLE.Create_vector(2, 1, 2).Create_contiguous(2),
    ],
    ids=lambda made: made.decode()[1],
)
def test_a_pickle_makes_an_equal_type(made: Datatype) -> None:
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is Datatype
    assert again.decode()[1:] == made.decode()[1:] or made.decode()[1] == "STRUCT"
    assert (again.size, again.lb, again.extent) == (made.size, made.lb, made.extent)
    span = made.typemap.span(0, 2)
    memory = bytes(range(256))[: span[1] - span[0]]
    packed = [
        t.typemap.pack(memoryview(memory), -span[0], 2, external=True)
        for t in (made, again)
    ]
    assert bytes(packed[0]) == bytes(packed[1])


class TestPack:
    def test_external32(self) -> None:
        values = np.array([1, -2, 3], "i4")
        out = bytearray(20)
        assert INT.Pack_external_size("external32", 3) == 12
        end = INT.Pack_external("external32", values, out, 4)
        assert end == 16
        assert out == bytes(4) + struct.pack(">3i", 1, -2, 3) + bytes(4)
        copy = np.zeros(3, "i4")
        assert INT.Unpack_external("external32", out, 4, copy) == 16
        assert copy.tolist() == values.tolist()

    @pytest.mark.skipif(
        D.LONG.size != 8, reason="this machine's long has 4 octets: it cannot overflow"
    )
    def test_pack_keeps_longs_whole(self) -> None:
        values = np.array([2**40, -1])
        out = bytearray(D.LONG.Pack_size(2, None))
        assert len(out) == 16
        D.LONG.Pack(values, out, 0, None)
        copy = np.zeros(2, int)
        D.LONG.Unpack(out, 0, copy, None)
        assert copy.tolist() == values.tolist()
        with pytest.raises(MPIException, match="MPI_LONG"):
            D.LONG.Pack_external("external32", values, out, 0)

    @pytest.mark.parametrize(
        ("call", "code"),
        [
            (lambda: INT.Pack(bytes(8), bytearray(7), 0, None), ERR_TRUNCATE),
            (lambda: INT.Pack(bytes(8), bytearray(8), -1, None), ERR_ARG),
            (lambda: INT.Unpack(bytes(7), 0, bytearray(8), None), ERR_TRUNCATE),
            (lambda: INT.Pack_external("native", bytes(8), bytearray(8), 0), ERR_ARG),
            (
                lambda: INT.Create_resized(0, 0).Pack(bytes(8), bytearray(8), 0, None),
                ERR_TYPE,
            ),
        ],
    )
    def test_refusals(self, call: Any, code: int) -> None:
        with pytest.raises(MPIException) as caught:
            call()
        assert caught.value == code


def test_attributes() -> None:
    keyval = Datatype.Create_keyval(copy_fn=True)
    gone: list[Any] = []
    other = Datatype.Create_keyval(
        delete_fn=lambda owner, key, value: gone.append(value)
    )
    made = INT.Dup()
    made.Set_attr(keyval, "kept")
    made.Set_attr(other, "lost")
    copy = made.Dup()
    assert (copy.Get_attr(keyval), copy.Get_attr(other)) == ("kept", None)
    made.Free()
    assert gone == ["lost"]
    copy.Delete_attr(keyval)
    assert copy.Get_attr(keyval) is None
    Datatype.Free_keyval(keyval)
    with pytest.raises(MPIException):
        copy.Get_attr(keyval)


def test_addresses() -> None:
    values = np.arange(4, dtype="i4")
    assert D.Get_address(values) == values.ctypes.data
    assert D.Get_address(BOTTOM) == D.Get_address(None) == 0
    assert D.Aint_add(values.ctypes.data, 4) == values[1:].ctypes.data
    assert D.Aint_diff(values[1:].ctypes.data, values.ctypes.data) == 4
