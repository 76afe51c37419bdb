"""Collectives of two groups: results against a naive model; a deadlock fails."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from collective_world import run

from impi.protocol.collectives import Reduction
from impi.protocol.collectives.beyond import inter
from impi.protocol.collectives.steps import among
from impi.protocol.semantics.constants import PROC_NULL, ROOT

SIZES = [(1, 1), (1, 3), (2, 1), (3, 4)]
shapes = pytest.mark.parametrize(("left", "right"), SIZES)
TAG = 5
TEXT = Reduction(lambda a, b: a + b, commutative=False)


def both(
    left: int, right: int, algorithm: Callable[[int, int, int], Any], *, seed: int = 0
) -> list[list[Any]]:
    """``algorithm(side, rank, remote size)`` of both groups; the results of each."""
    groups = [list(range(left)), list(range(left, left + right))]
    procs = [
        among(algorithm(side, rank, len(groups[1 - side])), groups[1 - side], TAG)
        for side in (0, 1)
        for rank in range(len(groups[side]))
    ]
    results = run(procs, seed, synchronous=seed % 3 > 0).results
    return [results[:left], results[left:]]


def names(side: int, size: int) -> list[str]:
    return [f"{'ab'[side]}{rank}" for rank in range(size)]


def root_of(side: int, rank: int, root: int, root_side: int) -> int:
    if side != root_side:
        return root
    return ROOT if rank == root else PROC_NULL


def rooted(left: int, right: int) -> list[tuple[int, int]]:
    return [(side, root) for side in (0, 1) for root in range((left, right)[side])]


@shapes
def test_exchange(left: int, right: int) -> None:
    for seed in range(6):
        got = both(
            left,
            right,
            lambda s, r, n: inter.exchange(n, [f"{s}{r}>{i}" for i in range(n)], TAG),
            seed=seed,
        )
        assert got[0] == [[f"1{i}>{r}" for i in range(right)] for r in range(left)]
        assert got[1] == [[f"0{i}>{r}" for i in range(left)] for r in range(right)]


@shapes
def test_rooted(left: int, right: int) -> None:
    sizes = (left, right)
    for (side, root), seed in product(rooted(left, right), range(3)):
        other = 1 - side
        got = both(
            left,
            right,
            lambda s, r, n: inter.bcast(n, root_of(s, r, root, side), f"{s}{r}"),
            seed=seed,
        )
        assert got[other] == [f"{side}{root}"] * sizes[other]
        got = both(
            left,
            right,
            lambda s, r, n: inter.gather(n, root_of(s, r, root, side), f"{s}{r}"),
            seed=seed,
        )
        want: list[Any] = [None] * sizes[side]
        want[root] = [f"{other}{i}" for i in range(sizes[other])]
        assert got[side] == want
        assert got[other] == [None] * sizes[other]
        got = both(
            left,
            right,
            lambda s, r, n: inter.scatter(
                n, root_of(s, r, root, side), [f"{s}{r}>{i}" for i in range(n)]
            ),
            seed=seed,
        )
        assert got[other] == [f"{side}{root}>{i}" for i in range(sizes[other])]
        assert got[side] == [None] * sizes[side]
        got = both(
            left,
            right,
            lambda s, r, n: inter.reduce(n, root_of(s, r, root, side), f"{s}{r}", TEXT),
            seed=seed,
        )
        want[root] = "".join(f"{other}{i}" for i in range(sizes[other]))
        assert got[side] == want


@shapes
def test_reductions_to_all(left: int, right: int) -> None:
    got = both(
        left, right, lambda s, r, n: inter.allreduce(n, names(s, r + 1)[r], TEXT)
    )
    assert got == [["".join(names(1, right))] * left, ["".join(names(0, left))] * right]

    def parts(value: str) -> list[str]:
        return [value[: i + 1] for i in range(9)]

    got = both(
        left,
        right,
        lambda s, r, n: inter.reduce_scatter(r, n, names(s, r + 1)[r], TEXT, parts),
    )
    assert got[0] == [parts("".join(names(1, right)))[r] for r in range(left)]


@shapes
def test_agreements(left: int, right: int) -> None:
    values = {
        0: [bytes([r]) for r in range(left)],
        1: [bytes([r + 2]) for r in range(right)],
    }
    got = both(left, right, lambda s, r, n: inter.leaders_maximum(r, n, values[s][r]))
    assert got == [
        [bytes([max(left - 1, right + 1)])] * left,
        [bytes([max(left - 1, right + 1)])] * right,
    ]
    got = both(left, right, lambda s, r, n: inter.announce(r, n, f"{s}{r}", TAG))
    assert got == [["10"] * left, ["00"] * right]
    assert both(left, right, lambda s, r, n: inter.free_barrier(r, n)) == [
        [None] * left,
        [None] * right,
    ]


@shapes
def test_merge(left: int, right: int) -> None:
    got = both(left, right, lambda s, r, n: inter.merge(r, n, 10 * s + r, s == 1))
    largest = 10 + right - 1
    assert got == [[(largest, True)] * left, [(largest, False)] * right]
