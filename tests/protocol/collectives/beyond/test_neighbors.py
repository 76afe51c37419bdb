from __future__ import annotations

from collective_world import run

from impi.protocol.collectives.beyond import neighbors
from impi.protocol.collectives.beyond.neighbors import Edges


def everywhere(edges: list[Edges], *, seed: int = 0) -> list[list[str | None]]:
    procs = [
        neighbors.exchange(
            rank, mine, [f"{rank}.{slot}" for slot in range(len(mine.destinations))]
        )
        for rank, mine in enumerate(edges)
    ]
    return run(procs, seed).results


def test_ring() -> None:
    for seed in range(5):
        got = everywhere(
            [Edges([(r - 1) % 4], [(r + 1) % 4]) for r in range(4)], seed=seed
        )
        assert got == [["3.0"], ["0.0"], ["1.0"], ["2.0"]]


def test_rim() -> None:
    assert everywhere([Edges([-2, 1], [-2, 1]), Edges([0, -2], [0, -2])]) == [
        [None, "1.0"],
        ["0.1", None],
    ]
    assert everywhere([Edges([], [])]) == [[]]


def test_several_edges_of_a_pair_are_matched_in_order() -> None:
    assert everywhere([Edges([1, 1, 0], [1, 0, 1]), Edges([0, 0], [0, 0])]) == [
        ["1.0", "1.1", "0.1"],
        ["0.0", "0.2"],
    ]


def test_labels_tell_edges_apart() -> None:
    """A periodic dimension of two: what goes down comes from above."""
    for seed in range(5):
        grid = [Edges([1 - r, 1 - r], [1 - r, 1 - r], [0, 1], [1, 0]) for r in (0, 1)]
        assert everywhere(grid, seed=seed) == [["1.1", "1.0"], ["0.1", "0.0"]]
    assert everywhere([Edges([0, 0], [0, 0], [0, 1], [1, 0])]) == [["0.1", "0.0"]]
