"""Values without content: as large as real ones, and cut and joined alike."""

from __future__ import annotations

import pytest

from impi.tools.simulate.model.values import Blank, Extent, Same, Zeros, nbytes


def test_sizes_of_values() -> None:
    assert [
        nbytes(value) for value in (Extent(7), memoryview(bytes(8)), b"123", [1, 2])
    ] == [7, 8, 3, 2]


def test_a_repeated_value_is_a_sequence() -> None:
    same = Same("x", 4)
    assert list(same) == ["x"] * 4
    assert (len(same[1:3]), same[-4]) == (2, "x")
    for at in (4, -5):
        with pytest.raises(IndexError):
            same[at]


def test_pieces_are_joined_to_a_number_and_parted_again() -> None:
    blank = Blank(8)
    assert blank.join([None] * 3, [0, 1, 2]) == Extent(24)
    assert bytes(blank.join([None], [0])) == bytes(8), (
        "one piece is octets, to concatenate"
    )
    assert list(blank.split(Extent(24), [0, 1, 2])) == [Extent(8)] * 3
    with pytest.raises(AssertionError, match="pieces were lost"):
        blank.split(Extent(23), [0, 1, 2])


def test_zeros_are_octets_however_many() -> None:
    assert bytes(Zeros(8).join([None] * 3, [0, 1, 2])) == bytes(24)
