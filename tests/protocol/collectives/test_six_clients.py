"""Conversations of six clients, written down by hand: nine processes, masters 0, 2, 4, 5, 6, 7.

======= ==== ==== = = = ====
client  0    1    2 3 4 5
ranks   0, 1 2, 3 4 5 6 7, 8
master  0    1    2 3 4 5
======= ==== ==== = = = ====
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from collective_world import run

from impi.protocol.collectives import (
    Fixed,
    Layout,
    Reduction,
    barrier,
    bcast,
    gather,
    reduce,
)

CLIENTS = (0, 0, 1, 1, 2, 3, 4, 5, 5)
LAYOUT = Layout(CLIENTS)
MAXLINEAR = 4


def talk(algorithm: Callable[[int], Any], seed: int = 0) -> list[tuple[int, int, Any]]:
    """(source, dest, value) between clients, in the order in which they were sent."""
    outcome = run([algorithm(r) for r in range(9)], seed)
    return [(m.source, m.dest, m.value) for m in outcome.between(CLIENTS)]


def test_barrier_goes_up_the_high_bit_tree_and_down_again() -> None:
    up = {(2, 0), (4, 0), (5, 2), (6, 0), (7, 2)}
    for seed in range(20):
        routes = [
            (a, b)
            for a, b, _ in talk(lambda r: barrier(LAYOUT, r, maxlinear=MAXLINEAR), seed)
        ]
        assert set(routes[:5]) == up
        assert set(routes[5:]) == {(b, a) for a, b in up}
        # Master 1 reports only when masters 3 and 5 have, and tells them only when it was told.
        assert routes.index((2, 0)) > max(routes.index((5, 2)), routes.index((7, 2)))
        assert routes.index((0, 2)) < min(routes.index((2, 5)), routes.index((2, 7)))


def test_barrier_of_six_is_linear_if_the_limit_allows() -> None:
    up = {(2, 0), (4, 0), (5, 0), (6, 0), (7, 0)}
    routes = [(a, b) for a, b, _ in talk(lambda r: barrier(LAYOUT, r, maxlinear=6))]
    assert set(routes[:5]) == up
    assert routes[5:] == [(0, 2), (0, 4), (0, 5), (0, 6), (0, 7)]


@pytest.mark.parametrize(
    ("root", "routes"),
    [
        (0, {(0, 2), (0, 4), (0, 6), (2, 5), (2, 7)}),
        # No master: stands in for master 1, so vertices 0..5 are 3, 4, 5, 6, 7, 0.
        (3, {(3, 4), (3, 5), (3, 7), (4, 6), (4, 0)}),
        # Vertices 7, 0, 2, 4, 5, 6.
        (7, {(7, 0), (7, 2), (7, 5), (0, 4), (0, 6)}),
    ],
)
def test_bcast_over_the_rotated_high_bit_tree(
    root: int, routes: set[tuple[int, int]]
) -> None:
    seen = talk(
        lambda r: bcast(
            LAYOUT, r, root, b"x" if r == root else None, maxlinear=MAXLINEAR
        )
    )
    assert {(a, b) for a, b, _ in seen} == routes
    assert len(seen) == 5


def test_reduce_over_the_rotated_low_bit_tree() -> None:
    # Root 3: vertices 0..5 are 3, 4, 5, 6, 7, 0, with parents 1>0 2>0 3>2 4>0 5>4.
    op: Reduction[int] = Reduction(lambda a, b: a + b)
    seen = talk(lambda r: reduce(LAYOUT, r, 3, 10**r, op, maxlinear=MAXLINEAR))
    assert sorted(seen) == [
        (0, 7, 10**0 + 10**1),
        (4, 3, 10**4),
        (5, 3, 10**5 + 10**6),
        (6, 5, 10**6),
        (7, 3, 10**7 + 10**8 + 10**0 + 10**1),
    ]


def test_reduce_of_six_is_linear_if_the_limit_allows() -> None:
    op: Reduction[int] = Reduction(lambda a, b: a + b)
    seen = talk(lambda r: reduce(LAYOUT, r, 3, 10**r, op, maxlinear=6))
    assert sorted(seen) == [
        (0, 3, 11),
        (4, 3, 10**4),
        (5, 3, 10**5),
        (6, 3, 10**6),
        (7, 3, 10**7 + 10**8),
    ]


def test_reduce_that_does_not_commute_has_neither_masters_nor_tree() -> None:
    op: Reduction[str] = Reduction(lambda a, b: a + b, commutative=False)
    seen = talk(lambda r: reduce(LAYOUT, r, 3, str(r), op, maxlinear=MAXLINEAR))
    assert sorted(seen) == [(r, 3, str(r)) for r in (0, 1, 4, 5, 6, 7, 8)]


def test_short_gather_forwards_blocks_in_the_order_of_masters() -> None:
    seen = talk(
        lambda r: gather(
            LAYOUT, r, 3, b"%d" % r, Fixed(1), maxlinear=MAXLINEAR, short=True
        )
    )
    assert sorted(seen) == [
        (0, 7, b"01"),
        (4, 3, b"4"),
        (5, 3, b"56"),
        (6, 5, b"6"),
        (7, 3, b"7801"),
    ]


def test_short_gather_of_six_is_linear_if_the_limit_allows() -> None:
    seen = talk(
        lambda r: gather(LAYOUT, r, 3, b"%d" % r, Fixed(1), maxlinear=6, short=True)
    )
    assert sorted(seen) == [
        (0, 3, b"01"),
        (4, 3, b"4"),
        (5, 3, b"5"),
        (6, 3, b"6"),
        (7, 3, b"78"),
    ]


def test_clients_that_interleave() -> None:
    # Clients of ranks 0..4: 1, 0, 1, 2, 0. Masters: 0 (client 1), 1 (client 0), 3 (client 2).
    clients = (1, 0, 1, 2, 0)
    layout = Layout(clients)
    outcome = run(
        [
            gather(layout, r, 4, b"%d" % r, Fixed(1), maxlinear=1, short=True)
            for r in range(5)
        ],
        3,
    )
    # Rank 4 stands in for master 1; vertices 0, 1, 2 are 4, 3, 0.
    assert sorted((m.source, m.dest, m.value) for m in outcome.between(clients)) == [
        (0, 4, b"02"),
        (3, 4, b"3"),
    ]
    assert [bytes(p) for p in outcome.results[4]] == [b"0", b"1", b"2", b"3", b"4"]
