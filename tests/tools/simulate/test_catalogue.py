"""The collectives that can be simulated, and what is too large."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulate_world import CHOSEN, LIMITS, SHAPES, SIZES, driver

from impi.base.errors import UsageError
from impi.tools.simulate.agreed_algorithms import Choices, parse_choices
from impi.tools.simulate.catalogue import Case, check_size, simulate
from impi.tools.simulate.model.shape import Limits, Shape, parse_shape, spread
from impi.tools.simulate.model.values import nbytes


@settings(deadline=None, max_examples=60)
@given(SHAPES, LIMITS, SIZES, st.booleans(), CHOSEN)
def test_everybody_has_what_is_due(
    shape: Shape, limits: Limits, size: int, native: bool, chosen: Choices
) -> None:
    def results(operation: str) -> dict[int, Any]:
        case = Case(operation, size, native=native, chosen=chosen)
        return simulate(
            shape, limits, case, driver(shape, limits, shared=False)
        ).results

    n = shape.size
    assert all(nbytes(value) == size for value in results("bcast").values())
    assert all(nbytes(value) == size for value in results("allreduce").values())
    assert all(nbytes(value) == size for value in results("reduce_scatter").values())
    assert all(nbytes(value) == size for value in results("scatter").values())
    assert {
        rank: None if pieces is None else len(pieces)
        for rank, pieces in results("gather").items()
    } == {rank: n if rank == 0 else None for rank in range(n)}
    assert all(
        [nbytes(p) for p in pieces] == [size] * n
        for pieces in results("allgather").values()
    )


def test_a_hundred_thousand_processes() -> None:
    shape = spread(100_000, 32, 32)
    outcome = simulate(shape, Limits(), Case("allreduce", 8), driver(shape))
    assert (outcome.messages, outcome.hops, outcome.phases) == (62, 10, 64)


def test_what_is_too_large_or_wrong_is_said() -> None:
    large, small = spread(100_000, 2, 32), spread(4, 2, 2)
    with pytest.raises(
        UsageError, match="alltoall among 100000 processes is 9999900000 messages"
    ):
        check_size(large, Limits(), Case("alltoall", 8))
    with pytest.raises(UsageError, match="--local library"):
        check_size(large, Limits(), Case("gather", 8, native=False))
    with pytest.raises(UsageError, match=r"root 4 is not in 0\.\.3"):
        check_size(small, Limits(), Case("bcast", 8, root=4))
    with pytest.raises(
        UsageError,
        match="bcast of 1099511627776 octets among 4 processes is some 8388608 packets",
    ):
        check_size(small, Limits(), Case("bcast", 1 << 40))
    with pytest.raises(
        UsageError,
        match=r"chain bcast of 1073741824 octets .* give --size up to 536870912",
    ):
        check_size(
            small,
            Limits(),
            Case("bcast", 1 << 30, chosen=parse_choices("bcast=chain/1M")),
        )
    for make in (
        lambda: spread(10**14, 32, 32),
        lambda: parse_shape("999999x999999"),
        lambda: parse_shape("1x999999+1x2"),
    ):
        with pytest.raises(
            UsageError, match="more than can be simulated; give at most 1000000"
        ):
            make()
    for clients, procs in ((33, 100), (3, 2)):
        with pytest.raises(UsageError):
            spread(procs, clients, 32)
    with pytest.raises(UsageError, match="'2y2' is not NODESxPROCS"):
        parse_shape("2x2+2y2")
