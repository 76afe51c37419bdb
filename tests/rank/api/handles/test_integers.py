"""Integer arguments: mpi4py itself is asked by tests/programs/differential_arguments.py."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from impi.rank.api.handles.integers import LONG_MAX, converter, fitting, integer, row


class Indexed:
    def __index__(self) -> int:
        return 7


class Whole:
    def __int__(self) -> int:
        return 7


@pytest.mark.parametrize(
    "value",
    [
        7,
        7.9,
        Decimal(7),
        Fraction(15, 2),
        Whole(),
        np.int8(7),
        np.float64(7),
        np.array(7),
    ],
)
def test_a_number_is_taken_without_its_fraction(value: Any) -> None:
    found = integer(value)
    assert found == 7 and type(found) is int


@pytest.mark.parametrize("value", [True, np.True_])
def test_a_flag_is_1(value: Any) -> None:
    found = integer(value)
    assert found == 1 and type(found) is int


@pytest.mark.parametrize(
    ("value", "failure"),
    [
        ("7", TypeError),
        (b"7", TypeError),
        (None, TypeError),
        (7j, TypeError),
        ([7], TypeError),
        (np.array([7, 7]), TypeError),
        (float("nan"), ValueError),
        (float("inf"), OverflowError),
        (1 << 31, OverflowError),
        (-(1 << 31) - 1, OverflowError),
        (1e300, OverflowError),
    ],
)
def test_what_is_refused(value: Any, failure: type[Exception]) -> None:
    with pytest.raises(failure):
        integer(value)


def test_the_range_of_c() -> None:
    assert [fitting(n) for n in (-(1 << 31), (1 << 31) - 1)] == [
        -(1 << 31),
        (1 << 31) - 1,
    ]
    assert fitting(1 << 40, LONG_MAX) == 1 << 40
    with pytest.raises(OverflowError, match="not in the range of C"):
        fitting(1 << 63, LONG_MAX)


def test_a_row() -> None:
    values: Any = [1, True, Indexed(), np.int64(3), np.array(4)]
    assert row(values) == [1, 1, 7, 3, 4]
    assert row(np.arange(3)) == [0, 1, 2]
    for wrong in (3, "1", [1.0], [Whole()], [np.True_], [None]):
        with pytest.raises(TypeError):
            row(wrong)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        row([1 << 31])
    assert row([1 << 31], LONG_MAX) == [1 << 31]


def test_only_parameters_of_a_function_that_are_integers() -> None:
    def method(self: None, buf: object, dest: int, tag: int = 0, size: int = 0) -> None:
        """Has three of them."""

    def other(self: None, buf: object) -> None:
        """Has none."""

    convert = converter(method, 1)
    assert convert is not None and converter(other, 1) is None
    assert convert((1.5, 1.5), {"tag": 2.5}) == ((1.5, 1), {"tag": 2})
    assert convert((1.5,), {}) == ((1.5,), {})
    plain = (b"", 1, 2)
    assert convert(plain, {})[0] is plain
    assert convert((b"", 1, 2, 1 << 40), {})[0][3] == 1 << 40
    for args in ((b"", 1 << 31), (b"", 1, 1 << 31), (b"", 1, 2, 1 << 63)):
        with pytest.raises(OverflowError):
            convert(args, {})
    with pytest.raises(TypeError):
        convert((b"",), {"dest": "1"})
