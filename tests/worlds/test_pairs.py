"""The pairs that are tests, and those that are proofs."""

from __future__ import annotations

import pytest
from pairs import pairs

ROWS = [
    1,
    pytest.param(["mpich:2", "pure"], marks=pytest.mark.slow),
    pytest.param(3, 4, id="c"),
    "d",
]


@pytest.mark.parametrize(
    ("rows", "columns"),
    [(ROWS, [True, False]), ([True, False], ROWS), (ROWS, ROWS), (ROWS, [1])],
)
def test_all_pairs_are_there_and_each_row_and_column_is_tested(rows, columns):
    found = [
        (str(values.id), {mark.name for mark in values.marks})
        for values in pairs(rows, columns)
    ]
    assert len(dict(found)) == len(rows) * len(columns)
    tested = [name.split("-") for name, marks in found if "proof" not in marks]
    assert len({row for row, _ in tested}) == len(rows)
    assert len({column for _, column in tested}) == len(columns)
    assert len(tested) == max(len(rows), len(columns))


def test_values_marks_and_ids_are_kept():
    found = {values.id: values for values in pairs(ROWS, ["x"])}
    assert list(found) == ["1-x", "mpich:2+pure-x", "c-x", "d-x"]
    assert found["c-x"].values == (3, 4, "x")
    assert [mark.name for mark in found["mpich:2+pure-x"].marks] == ["slow"]
