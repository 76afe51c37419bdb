from __future__ import annotations

import numpy as np
import pytest

from impi.protocol.semantics.constants import ERROR_CLASSES
from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.values.basic import Kind
from impi.protocol.semantics.values.datatype import NAMED
from impi.protocol.semantics.values.derive import contiguous
from impi.protocol.semantics.values.op import (
    OF_WINDOWS,
    OPS,
    UFUNCS,
    apply,
    check,
    check_reduction,
    onto,
)

# MPI 4.1, 6.9.2: the table of valid types; and what MPICH and Open MPI both have beyond it, logical
# operations on MPI_AINT and its like.
VALID = {
    "MAX": "C_INTEGER FORTRAN_INTEGER FLOATING MULTI_LANGUAGE",
    "MIN": "C_INTEGER FORTRAN_INTEGER FLOATING MULTI_LANGUAGE",
    "SUM": "C_INTEGER FORTRAN_INTEGER FLOATING COMPLEX MULTI_LANGUAGE",
    "PROD": "C_INTEGER FORTRAN_INTEGER FLOATING COMPLEX MULTI_LANGUAGE",
    "LAND": "C_INTEGER LOGICAL MULTI_LANGUAGE",
    "LOR": "C_INTEGER LOGICAL MULTI_LANGUAGE",
    "LXOR": "C_INTEGER LOGICAL MULTI_LANGUAGE",
    "BAND": "C_INTEGER FORTRAN_INTEGER BYTE MULTI_LANGUAGE",
    "BOR": "C_INTEGER FORTRAN_INTEGER BYTE MULTI_LANGUAGE",
    "BXOR": "C_INTEGER FORTRAN_INTEGER BYTE MULTI_LANGUAGE",
    "MAXLOC": "",
    "MINLOC": "",
    "REPLACE": " ".join(kind.name for kind in Kind),
    "NO_OP": " ".join(kind.name for kind in Kind),
}


@pytest.mark.parametrize("op", sorted(VALID))
def test_the_table_of_valid_types(op: str) -> None:
    kinds = {Kind[name] for name in VALID[op].split()}
    for name, typemap in NAMED.items():
        pair = len(typemap.runs) == 2
        allowed = (
            op in ("MAXLOC", "MINLOC", "REPLACE", "NO_OP")
            if pair
            else typemap.runs[0].basic.kind in kinds
        )
        if allowed:
            check(op, typemap)
        else:
            with pytest.raises(
                MPIException, match=f"MPI_{op} is not defined for .*MPI_{name}"
            ) as caught:
                check(op, typemap)
            assert caught.value == ERROR_CLASSES["ERR_OP"][0]


def test_a_char_is_a_signed_number_and_a_byte_is_none() -> None:
    into = np.array([3, -128, 0], "i1")
    apply("MAX", np.array([-15, -128, -1], "i1"), into, NAMED["CHAR"])
    assert into.tolist() == [3, -128, 0]
    assert NAMED["CHAR"].dtype == np.int8
    for name in ("BYTE", "CHARACTER", "WCHAR", "PACKED"):
        with pytest.raises(MPIException, match="not defined"):
            check("SUM", NAMED[name])


@pytest.mark.parametrize("op", OF_WINDOWS)
def test_operations_of_windows_are_no_reductions(op: str) -> None:
    check(op, NAMED["INT"])
    with pytest.raises(
        MPIException, match=f"MPI_{op} is for one-sided communication only"
    ) as caught:
        check_reduction(op, NAMED["INT"])
    assert caught.value == ERROR_CLASSES["ERR_OP"][0]


@pytest.mark.parametrize("op", sorted(OPS))
def test_derived_types_need_an_operation_of_ones_own(op: str) -> None:
    with pytest.raises(MPIException, match="predefined datatypes only"):
        check(op, contiguous(1, NAMED["INT"]))


@pytest.mark.parametrize("op", sorted(OPS))
@pytest.mark.parametrize("name", sorted(NAMED))
def test_every_valid_pair_runs_and_keeps_the_type(op: str, name: str) -> None:
    typemap = NAMED[name]
    try:
        check(op, typemap)
    except MPIException:
        return
    assert typemap.dtype is not None
    invec, inoutvec = np.zeros(3, typemap.dtype), np.zeros(3, typemap.dtype)
    apply(op, invec, inoutvec, typemap)
    assert inoutvec.dtype == typemap.dtype


def reduced(op: str, name: str, a: list[object], b: list[object]) -> list[object]:
    dtype = NAMED[name].dtype
    inoutvec = np.array(b, dtype)
    apply(op, np.array(a, dtype), inoutvec, NAMED[name])
    result: list[object] = inoutvec.tolist()
    return result


@pytest.mark.parametrize(
    ("op", "name", "a", "b", "expected"),
    [
        ("MAX", "INT", [1, 5, -3], [2, 4, -4], [2, 5, -3]),
        ("MIN", "DOUBLE", [1.5, 5.0], [2.5, 4.0], [1.5, 4.0]),
        ("SUM", "C_DOUBLE_COMPLEX", [1 + 2j], [3 - 1j], [4 + 1j]),
        ("PROD", "SHORT", [3, -2], [4, 5], [12, -10]),
        ("LAND", "INT", [0, 5, 7], [3, 0, 2], [0, 0, 1]),
        ("LOR", "LOGICAL", [0, 5, 0], [3, 0, 0], [1, 1, 0]),
        (
            "LXOR",
            "C_BOOL",
            [True, True, False],
            [True, False, False],
            [False, True, False],
        ),
        ("BAND", "BYTE", [0b1100], [0b1010], [0b1000]),
        ("BOR", "UINT8_T", [0b1100], [0b1010], [0b1110]),
        ("BXOR", "INT64_T", [0b1100], [0b1010], [0b0110]),
        ("REPLACE", "CHAR", [1, 2], [3, 4], [1, 2]),
        ("NO_OP", "CHAR", [1, 2], [3, 4], [3, 4]),
        ("SUM", "UINT8_T", [250], [10], [4]),
        ("SUM", "FLOAT16_T", [60000.0], [60000.0], [float("inf")]),
    ],
)
def test_results(
    op: str, name: str, a: list[object], b: list[object], expected: list[object]
) -> None:
    assert reduced(op, name, a, b) == expected


def test_locations_take_the_lower_index_of_equal_values() -> None:
    a: list[object] = [(1, 9), (5, 3), (5, 4), (2, 0)]
    b: list[object] = [(2, 0), (4, 0), (5, 3), (2, 1)]
    assert reduced("MAXLOC", "INT_INT", a, b) == [(2, 0), (5, 3), (5, 3), (2, 0)]
    assert reduced("MINLOC", "DOUBLE_INT", a, b) == [(1, 9), (4, 0), (5, 3), (2, 0)]


def test_the_input_is_not_changed() -> None:
    invec = np.arange(3.0)
    apply("SUM", invec, np.ones(3), NAMED["DOUBLE"])
    assert invec.tolist() == [0, 1, 2]


@pytest.mark.parametrize("op", sorted(UFUNCS))
def test_the_same_in_the_place_of_the_first(op: str) -> None:
    first, second = np.array([6, 3, -5]), np.array([3, 4, 2])
    expected = second.copy()
    apply(op, first, expected, NAMED["INT64_T"])
    run = onto(op)
    assert run is not None
    assert run(first, second) is first
    assert (first.tolist(), second.tolist()) == (expected.tolist(), [3, 4, 2])


def test_pairs_and_truth_values_have_only_the_place_of_the_second() -> None:
    assert [onto(op) for op in ("MAXLOC", "LAND", "REPLACE")] == [None] * 3
