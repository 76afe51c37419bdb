"""Two lists of parameters crossed: a diagonal is tested, all other pairs are proofs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from _pytest.mark.structures import ParameterSet


def pairs(rows: Sequence[Any], columns: Sequence[Any]) -> list[ParameterSet]:
    """Every pair (row, column) as parameters of one test; each row and column is in a test.

    A row or a column is a value or a ``pytest.param``, whose values, marks and id are kept.
    """
    found = []
    for i, row in enumerate(map(_param, rows)):
        for j, column in enumerate(map(_param, columns)):
            tested = (
                i % len(columns) == j
                if len(rows) >= len(columns)
                else j % len(rows) == i
            )
            marks = [
                *row.marks,
                *column.marks,
                *([] if tested else [pytest.mark.proof]),
            ]
            found.append(
                pytest.param(
                    *row.values,
                    *column.values,
                    marks=marks,
                    id=f"{_id(row)}-{_id(column)}",
                )
            )
    return found


def _param(value: Any) -> ParameterSet:
    return value if isinstance(value, ParameterSet) else pytest.param(value)


def _id(param: ParameterSet) -> str:
    if isinstance(param.id, str):
        return param.id
    return "+".join(
        str(part)
        for value in param.values
        for part in (value if isinstance(value, list) else [value])
    )
