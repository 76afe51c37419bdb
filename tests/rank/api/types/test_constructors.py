from __future__ import annotations

from typing import Any

import pytest

from impi.protocol.semantics.errors import MPIException
from impi.rank.api import constants as C
from impi.rank.api.types import datatypes as D
from impi.rank.api.types.datatypes import DATATYPE_NULL, DOUBLE, FLOAT, INT, Datatype

MADE: list[tuple[Datatype, str, dict[str, Any], list[int], list[int]]] = [
    (INT.Dup(), "DUP", {}, [], []),
    (INT.Create_contiguous(3), "CONTIGUOUS", {"count": 3}, [], [3]),
    (
        INT.Create_vector(2, 1, 3),
        "VECTOR",
        {"count": 2, "blocklength": 1, "stride": 3},
        [],
        [2, 1, 3],
    ),
    (
        INT.Create_hvector(2, 1, 16),
        "HVECTOR",
        {"count": 2, "blocklength": 1, "stride": 16},
        [],
        [2, 1, 16],
    ),
    (
        INT.Create_indexed((1, 2), (0, 3)),
        "INDEXED",
        {"blocklengths": [1, 2], "displacements": [0, 3]},
        [],
        [2, 1, 2, 0, 3],
    ),
    (
        INT.Create_hindexed([1], [4]),
        "HINDEXED",
        {"blocklengths": [1], "displacements": [4]},
        [],
        [1, 1, 4],
    ),
    (
        INT.Create_indexed_block(2, [0, 5]),
        "INDEXED_BLOCK",
        {"blocklength": 2, "displacements": [0, 5]},
        [],
        [2, 2, 0, 5],
    ),
    (
        INT.Create_hindexed_block(1, [8]),
        "HINDEXED_BLOCK",
        {"blocklength": 1, "displacements": [8]},
        [],
        [1, 1, 8],
    ),
    (
        INT.Create_subarray([4, 5], [2, 3], [1, 0], C.ORDER_F),
        "SUBARRAY",
        {"sizes": [4, 5], "subsizes": [2, 3], "starts": [1, 0], "order": C.ORDER_F},
        [2, C.ORDER_F],
        [4, 5, 2, 3, 1, 0],
    ),
    (INT.Create_resized(-4, 12), "RESIZED", {"lb": -4, "extent": 12}, [], [-4, 12]),
    (
        INT.Create_darray(
            2, 1, [4], [C.DISTRIBUTE_CYCLIC], [C.DISTRIBUTE_DFLT_DARG], [2]
        ),
        "DARRAY",
        {
            "size": 2,
            "rank": 1,
            "gsizes": [4],
            "distribs": [C.DISTRIBUTE_CYCLIC],
            "dargs": [C.DISTRIBUTE_DFLT_DARG],
            "psizes": [2],
            "order": C.ORDER_C,
        },
        [2, 1, 1, C.DISTRIBUTE_CYCLIC, C.DISTRIBUTE_DFLT_DARG, 2, C.ORDER_C],
        [4],
    ),
]


@pytest.mark.parametrize(
    ("made", "combiner", "params", "integers", "counts"),
    MADE,
    ids=[row[1] for row in MADE],
)
def test_taken_apart(
    made: Datatype,
    combiner: str,
    params: dict[str, Any],
    integers: list[int],
    counts: list[int],
) -> None:
    base, name, arguments = made.decode()
    assert base is INT
    assert (name, arguments) == (combiner, params)
    assert made.combiner == getattr(C, f"COMBINER_{combiner}")
    assert made.Get_contents() == made.contents == (integers, [], counts, [INT])
    assert (
        made.Get_envelope()
        == made.envelope
        == (len(integers), 0, len(counts), 1, made.combiner)
    )
    assert not made.is_named
    assert not made.is_predefined


def test_struct_taken_apart() -> None:
    made = Datatype.Create_struct([1, 2], [0, 8], [INT, DOUBLE])
    assert made.decode() == (
        DATATYPE_NULL,
        "STRUCT",
        {"blocklengths": [1, 2], "displacements": [0, 8], "datatypes": [INT, DOUBLE]},
    )
    assert made.Get_contents() == ([], [], [2, 1, 2, 0, 8], [INT, DOUBLE])


def test_named_ones_have_no_contents() -> None:
    assert INT.decode() == (INT, "NAMED", {})
    assert INT.Get_envelope() == (0, 0, 0, 0, C.COMBINER_NAMED)
    with pytest.raises(MPIException) as caught:
        INT.Get_contents()
    assert caught.value == C.ERR_TYPE


def test_what_it_was_made_of_lives_on() -> None:
    base = INT.Create_contiguous(2)
    made = base.Create_vector(2, 1, 2)
    base.Free()
    again, combiner, params = made.decode()[0].decode()
    assert (again, combiner, params) == (INT, "CONTIGUOUS", {"count": 2})


@pytest.mark.parametrize(
    "call",
    [
        lambda: INT.Create_indexed([1, 2], [0]),
        lambda: INT.Create_hindexed([1], [0, 1]),
        lambda: Datatype.Create_struct([1], [0], [INT, INT]),
        lambda: INT.Create_subarray([2, 2], [1], [0, 0]),
        lambda: INT.Create_darray(1, 0, [2], [], [], [1]),
    ],
)
def test_sequences_of_different_lengths(call: Any) -> None:
    with pytest.raises(ValueError, match="items"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: INT.Create_vector(1, -1, 1),
        lambda: INT.Create_subarray([2], [1], [0], 999),
        lambda: INT.Create_darray(1, 0, [2], [999], [1], [1]),
        lambda: Datatype.Match_size(C.TYPECLASS_REAL, 3),
        lambda: Datatype.Match_size(99, 4),
        lambda: Datatype.Create_f90_integer(99),
        lambda: Datatype.Create_f90_real(99, 1),
    ],
)
def test_bad_arguments(call: Any) -> None:
    with pytest.raises(MPIException) as caught:
        call()
    assert caught.value == C.ERR_ARG


def test_pairs_by_their_parts() -> None:
    assert Datatype.Get_value_index(DOUBLE, INT) == D.DOUBLE_INT
    assert Datatype.Get_value_index(INT, INT) == D.INT_INT
    assert Datatype.Get_value_index(FLOAT, FLOAT) == DATATYPE_NULL
    with pytest.raises(MPIException):
        Datatype.Get_value_index(DATATYPE_NULL, INT)


def test_fortran_types_by_what_they_can_do() -> None:
    assert Datatype.Match_size(C.TYPECLASS_INTEGER, 8) == D.INTEGER8
    assert Datatype.Match_size(C.TYPECLASS_COMPLEX, 16) == D.COMPLEX16
    for digits, size in ((1, 1), (3, 2), (9, 4), (10, 8), (38, 16)):
        made = Datatype.Create_f90_integer(digits)
        assert (made.size, made.typestr, made.is_predefined, made.is_named) == (
            size,
            f"i{size}",
            True,
            False,
        )
        assert made.decode()[1:] == ("F90_INTEGER", {"r": digits})
    assert Datatype.Create_f90_real(6, 30).typestr == "f4"
    assert Datatype.Create_f90_real(C.UNDEFINED, 300).typestr == "f8"
    assert Datatype.Create_f90_complex(15, 300).typestr == "c16"
    with pytest.raises(MPIException):
        Datatype.Create_f90_real(6, 30).Free()
