"""Reductions whose bits do not depend on the layout."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import chapter4
import numpy as np
import pytest
from collective_world import Outcome, run
from hypothesis import given, settings
from hypothesis import strategies as st

from impi.base.errors import LocalProtocolError
from impi.protocol.collectives import (
    Layout,
    Reduction,
    allreduce,
    reproducible_reduce,
    reproducible_reduce_scatter,
)

seeds = count()
sizes = pytest.mark.parametrize("size", [*range(1, 8), 11])
anything = st.floats(
    allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300
)


def add(invec: Any, inoutvec: Any) -> Any:
    inoutvec += invec
    return inoutvec


SUM: Reduction[Any] = Reduction(add, copy=np.copy)


def bracket(a: str, b: str) -> str:
    return f"({a}{b})"


TEXT: Reduction[str] = Reduction(bracket, commutative=False)


def everywhere(
    size: int, algorithm: Callable[[int], Any], clients: tuple[int, ...]
) -> Outcome:
    seed = next(seeds)
    return run(
        [algorithm(r) for r in range(size)],
        seed,
        synchronous=seed % 3 > 0,
        clients=clients,
    )


def tree(texts: list[str]) -> str:
    """Return the sum of v .. v+2^k-1, from the right end of the known pieces."""
    if len(texts) == 1:
        return texts[0]
    half = 1 << ((len(texts) - 1).bit_length() - 1)
    return bracket(tree(texts[:half]), tree(texts[half:]))


@sizes
def test_one_bracketing_whatever_the_layout(size: int) -> None:
    texts = [chr(ord("a") + r) for r in range(size)]
    for clients in chapter4.layouts(size):
        for root in range(size):
            layout = Layout(clients)
            outcome = everywhere(
                size,
                lambda r: reproducible_reduce(layout, r, root, texts[r], TEXT),
                clients,
            )
            assert outcome.results == [
                tree(texts) if r == root else None for r in range(size)
            ]
            assert {m.tag for m in outcome.sent} <= {190}
            assert len(outcome.sent) == size - 1 + (root != 0)
            assert outcome.phases == 0, "no library has a say"


@sizes
def test_reduce_scatter(size: int) -> None:
    texts = [chr(ord("a") + r) for r in range(size)]
    for clients in chapter4.layouts(size):
        layout = Layout(clients)

        def divide(whole: str) -> list[str]:
            return [f"{r}:{whole}" for r in range(size)]

        outcome = everywhere(
            size,
            lambda r: reproducible_reduce_scatter(layout, r, texts[r], TEXT, divide),
            clients,
        )
        assert outcome.results == divide(tree(texts))


@settings(max_examples=80)
@given(st.integers(2, 5), st.data())
def test_the_bits_of_random_numbers(size: int, data: st.DataObject) -> None:
    numbers = data.draw(
        st.lists(
            st.lists(anything, min_size=4, max_size=4), min_size=size, max_size=size
        )
    )
    values = [np.array(row) for row in numbers]
    before = [value.copy() for value in values]
    found = set()
    for clients in chapter4.partitions(size):
        layout = Layout(clients)
        outcome = everywhere(
            size, lambda r: reproducible_reduce(layout, r, 0, values[r], SUM), clients
        )
        found.add(outcome.results[0].tobytes())
    assert len(found) == 1
    assert all((a == b).all() for a, b in zip(values, before, strict=True)), (
        "a process changed what it was given"
    )


def test_without_it_the_bits_depend_on_the_layout() -> None:
    """Plain sums differ, so the tests above can fail."""
    values = [np.array([x]) for x in (1.0, 1e100, -1e100, 1.0)]
    found = set()
    for clients in chapter4.partitions(4):
        layout = Layout(clients)
        outcome = everywhere(
            4, lambda r: allreduce(layout, r, values[r], SUM, maxlinear=32), clients
        )
        found.add(outcome.results[0].tobytes())
    assert len(found) > 1


def test_a_root_that_is_not_there() -> None:
    with pytest.raises(LocalProtocolError, match="root 3"):
        next(reproducible_reduce(Layout((0, 0)), 0, 3, 1.0, SUM))
