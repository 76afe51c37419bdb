"""Grids of MPI_Dims_create, against all grids of a number."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impi.protocol.semantics.balance import balanced


def grids(n: int, ndims: int, least: int = 1) -> Iterator[list[int]]:
    """Every way to write n as a product, ascending."""
    if ndims == 1:
        yield [n]
        return
    for factor in range(least, n + 1):
        if factor**ndims > n:
            return
        if n % factor == 0:
            yield from (
                [factor, *rest] for rest in grids(n // factor, ndims - 1, factor)
            )


@given(st.integers(1, 30_000), st.integers(1, 8))
def test_the_least_difference_then_the_largest_last_dimensions(
    n: int, ndims: int
) -> None:
    least = min(grid[-1] - grid[0] for grid in grids(n, ndims))
    assert balanced(n, ndims)[::-1] == max(
        grid for grid in grids(n, ndims) if grid[-1] - grid[0] == least
    )


@pytest.mark.parametrize(
    ("n", "dims"),
    [
        (19152, [38, 24, 21]),  # 36 x 28 x 19 has the same difference
        (7488, [26, 18, 16]),
        (24624, [38, 27, 24]),
        (8208, [19, 9, 8, 6]),
        (2**31 - 1, [2**31 - 1, 1, 1]),
        (1, []),
        (1, [1, 1]),
        (12, [3, 2, 2, 1]),
    ],
)
def test_known(n: int, dims: list[int]) -> None:
    assert balanced(n, len(dims)) == dims


@given(
    st.lists(st.sampled_from([2, 2, 2, 3, 3, 5, 7, 11]), max_size=28),
    st.integers(1, 40),
)
def test_smooth_numbers_up_to_the_largest_int(primes: list[int], ndims: int) -> None:
    n = 1
    for prime in primes:
        n = n if n * prime >= 2**31 else n * prime
    dims = balanced(n, ndims)
    assert (prod(dims), len(dims)) == (n, ndims)
    assert dims == sorted(dims, reverse=True)
