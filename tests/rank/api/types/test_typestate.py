"""The object behind a datatype: how it was made, and which predefined one it is."""

from __future__ import annotations

import pytest

from impi.protocol.semantics.values.datatype import NAMED
from impi.rank.api import constants
from impi.rank.api.types.typestate import _CONTENTS, Recipe, TypeState, named


def test_every_combiner_has_its_constant() -> None:
    for combiner in ("NAMED", "DUP", *_CONTENTS):
        assert Recipe(combiner).number == getattr(constants, f"COMBINER_{combiner}")


@pytest.mark.parametrize(
    ("combiner", "params", "integers", "counts"),
    [
        ("NAMED", {}, [], []),
        ("VECTOR", {"count": 2, "blocklength": 3, "stride": 4}, [], [2, 3, 4]),
        (
            "STRUCT",
            {"blocklengths": [1, 2], "displacements": [0, 8]},
            [],
            [2, 1, 2, 0, 8],
        ),
        (
            "INDEXED_BLOCK",
            {"blocklength": 5, "displacements": [7, 9]},
            [],
            [2, 5, 7, 9],
        ),
        (
            "SUBARRAY",
            {"sizes": [4, 4], "subsizes": [1, 2], "starts": [0, 1], "order": 56},
            [2, 56],
            [4, 4, 1, 2, 0, 1],
        ),
        ("F90_REAL", {"p": 6, "r": 30}, [6, 30], []),
    ],
)
def test_contents(
    combiner: str, params: dict[str, object], integers: list[int], counts: list[int]
) -> None:
    assert Recipe(combiner, params).contents() == (integers, counts)


def test_one_object_for_each_name() -> None:
    assert named("INT") is named("INT") is not named("LONG")
    assert (named("INT").name, named("INT_INT").name) == ("MPI_INT", "MPI_2INT")
    assert (
        named("INT").predefined,
        named("INT").committed,
        named("INT").basic_name,
    ) == (True, True, "INT")


def test_which_predefined_datatype_a_derived_one_is() -> None:
    base = named("DOUBLE")
    copy = TypeState(base.typemap, Recipe("DUP", {}, (base,)))
    again = TypeState(base.typemap, Recipe("DUP", {}, (copy,)))
    assert (again.basic_name, again.predefined, again.committed) == (
        "DOUBLE",
        False,
        False,
    )
    row = TypeState(base.typemap, Recipe("CONTIGUOUS", {"count": 1}, (base,)))
    assert (row.basic_name, row.predefined) == ("", False)
    real = TypeState(NAMED["REAL8"], Recipe("F90_REAL", {"p": 10, "r": 30}))
    assert (real.basic_name, real.predefined) == ("REAL8", True)
