"""Rows of text, with columns under each other."""

from __future__ import annotations

from impi.base.columns import aligned


def test_columns_are_as_wide_as_their_widest_text() -> None:
    assert aligned([("a", "bcd", "e"), ("fgh", "", "ij")]) == [
        "a    bcd  e",
        "fgh       ij",
    ]


def test_no_line_ends_with_spaces() -> None:
    assert aligned([("name", "state"), ("mine", "")]) == ["name  state", "mine"]


def test_no_rows() -> None:
    assert aligned([]) == []
