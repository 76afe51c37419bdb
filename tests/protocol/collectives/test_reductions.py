"""Reductions against a naive model: results, routes of values, and unchanged arguments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count, product
from typing import Any

import chapter4
import pytest
from collective_world import run

from impi.base.errors import LocalProtocolError
from impi.protocol.collectives import (
    Layout,
    Recv,
    Reduction,
    allreduce,
    exscan,
    reduce,
    reduce_scatter,
    scan,
)

LIMITS = (1, 32)  # always a tree, always linear
sizes = pytest.mark.parametrize("size", [*range(1, 10), 13])
both = pytest.mark.parametrize("commutative", [True, False])
seeds = count()


def append(invec: list[int], inoutvec: list[int]) -> list[int]:
    """``invec`` before ``inoutvec``, in place: shows each value's parts and their order."""
    inoutvec[:0] = invec
    return inoutvec


def reduction_of(commutative: bool) -> Reduction[list[int]]:
    return Reduction(append, commutative=commutative, copy=list)


def cases(size: int) -> Iterator[tuple[tuple[int, ...], Layout, int, int]]:
    for clients in chapter4.layouts(size):
        for root, limit in product(range(size), LIMITS):
            yield clients, Layout(clients), root, limit


def everywhere(values: list[list[int]], algorithm: Callable[[int], Any]) -> Any:
    seed = next(seeds)
    before = [list(v) for v in values]
    outcome = run(
        [algorithm(r) for r in range(len(values))], seed, synchronous=seed % 3 > 0
    )
    assert values == before, "a process changed the value that it was given"
    return outcome


def in_order(commutative: bool, value: list[int]) -> list[int]:
    """Expected value: in the exact order, or only with everybody in it once."""
    return sorted(value) if commutative else value


def wire(outcome: Any, clients: tuple[int, ...]) -> Counter[chapter4.Wire]:
    return Counter(
        (m.source, m.dest, m.tag, tuple(sorted(m.value)))
        for m in outcome.between(clients)
    )


def expected_reduce(
    clients: tuple[int, ...], root: int, limit: int, commutative: bool
) -> list[chapter4.Wire]:
    if not commutative:
        return chapter4.everybody_to_root(clients, root, 190)
    over_masters = chapter4.reduce_commutative(clients, root, limit)
    return [(a, b, tag, tuple(sorted(content))) for a, b, tag, content in over_masters]


@sizes
@both
def test_reduce(size: int, commutative: bool) -> None:
    op = reduction_of(commutative)
    for clients, layout, root, limit in cases(size):
        values = [[r] for r in range(size)]
        outcome = everywhere(
            values, lambda r: reduce(layout, r, root, values[r], op, maxlinear=limit)
        )
        assert in_order(commutative, outcome.results.pop(root)) == list(range(size)), (
            clients,
            root,
            limit,
        )
        assert outcome.results == [None] * (size - 1)
        assert wire(outcome, clients) == Counter(
            expected_reduce(clients, root, limit, commutative)
        )


@sizes
@both
def test_allreduce(size: int, commutative: bool) -> None:
    op = reduction_of(commutative)
    for clients, layout, root, limit in cases(size):
        if root != 0:
            continue
        values = [[r] for r in range(size)]
        outcome = everywhere(
            values, lambda r: allreduce(layout, r, values[r], op, maxlinear=limit)
        )
        assert in_order(commutative, outcome.results[0]) == list(range(size))
        assert all(result == outcome.results[0] for result in outcome.results), (
            "the same value everywhere"
        )
        down = [
            (a, b, tag, tuple(range(size)))
            for a, b, tag, _ in chapter4.bcast(clients, 0, limit)
        ]
        assert wire(outcome, clients) == Counter(
            expected_reduce(clients, 0, limit, commutative) + down
        )


@sizes
@both
def test_reduce_scatter(size: int, commutative: bool) -> None:
    def divide(value: list[int]) -> list[list[int]]:
        return [[r, *in_order(commutative, value)] for r in range(size)]

    op = reduction_of(commutative)
    for clients, layout, root, limit in cases(size):
        if root != 0:
            continue
        values = [[r] for r in range(size)]
        outcome = everywhere(
            values,
            lambda r: reduce_scatter(layout, r, values[r], op, divide, maxlinear=limit),
        )
        assert outcome.results == [[r, *range(size)] for r in range(size)]
        routes = Counter((m.source, m.dest, m.tag) for m in outcome.between(clients))
        expected = expected_reduce(
            clients, 0, limit, commutative
        ) + chapter4.root_to_everybody(clients, 0, 160)
        assert routes == Counter(w[:3] for w in expected)


@sizes
@both
def test_scan(size: int, commutative: bool) -> None:
    op = reduction_of(commutative)
    for clients in chapter4.layouts(size):
        layout = Layout(clients)
        values = [[r] for r in range(size)]
        outcome = everywhere(values, lambda r: scan(layout, r, values[r], op))
        assert outcome.results == [list(range(r + 1)) for r in range(size)]
        assert wire(outcome, clients) == Counter(chapter4.chain(clients))


@sizes
@both
def test_exscan(size: int, commutative: bool) -> None:
    op = reduction_of(commutative)
    for clients in chapter4.layouts(size):
        layout = Layout(clients)
        values = [[r] for r in range(size)]
        outcome = everywhere(values, lambda r: exscan(layout, r, values[r], op))
        assert outcome.results == [None, *(list(range(r)) for r in range(1, size))]
        assert wire(outcome, clients) == Counter(chapter4.chain(clients))


def test_values_may_be_none() -> None:
    # Objects reduce by any function of the user's, also one that makes None of them.
    def forget(_a: object, _b: object) -> object:
        return None

    op: Reduction[object] = Reduction(forget)
    layout = Layout([0, 1, 1])
    assert run([exscan(layout, r, "x", op) for r in range(3)], 1).results == [
        None,
        "x",
        None,
    ]
    assert (
        run([allreduce(layout, r, "x", op, maxlinear=4) for r in range(3)], 1).results
        == [None] * 3
    )
    parts = run(
        [
            reduce_scatter(layout, r, "x", op, lambda _: "abc", maxlinear=4)
            for r in range(3)
        ],
        1,
    ).results
    assert parts == ["a", "b", "c"]


@pytest.mark.parametrize("root", [0, 7, 19])
def test_a_root_without_masters_holds_few_values_at_once(root: int) -> None:
    n = 20
    layout = Layout([r % 3 for r in range(n)])
    algorithm = reduce(layout, root, root, [root], reduction_of(False), maxlinear=4)
    steps = next(algorithm)
    received = 0
    with pytest.raises(StopIteration) as end:
        while True:
            receives = [s for s in steps if isinstance(s, Recv)]
            assert len(receives) == len(steps) and 0 < len(steps) <= 8
            received += len(steps)
            steps = algorithm.send([[s.source] for s in receives])
    assert end.value.value == list(range(n))
    assert received == n - 1


def test_a_linear_root_combines_once_a_message_by_ascending_master() -> None:
    # IMPI 4.16: acc = op(message, acc): the last master comes first if not commutative.
    layout = Layout([2, 1, 0, 3])
    values = [[r] for r in range(4)]
    outcome = run(
        [
            reduce(layout, r, 2, values[r], reduction_of(True), maxlinear=4)
            for r in range(4)
        ],
        5,
    )
    assert outcome.results[2] == [3, 1, 0, 2]


def test_alone_it_is_the_value_itself() -> None:
    value = [1]
    op = reduction_of(True)
    for algorithm in (
        reduce(Layout([0]), 0, 0, value, op, maxlinear=4),
        allreduce(Layout([0]), 0, value, op, maxlinear=4),
        scan(Layout([0]), 0, value, op),
    ):
        with pytest.raises(StopIteration) as end:
            next(algorithm)
        assert end.value.value is value


@both
def test_no_such_root(commutative: bool) -> None:
    with pytest.raises(
        LocalProtocolError, match="root 2 is not in a communicator of 2 processes"
    ):
        next(reduce(Layout([0, 1]), 0, 2, [0], reduction_of(commutative), maxlinear=4))
