"""The trees of 4.2: utility functions and the two trees of the sixth master."""

from __future__ import annotations

import pytest

from impi.protocol.collectives import trees


@pytest.mark.parametrize(
    ("n", "dim"),
    [(-1, -1), (0, -1), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4)],
)
def test_cubedim_is_the_smallest_hypercube(n: int, dim: int) -> None:
    assert trees.cubedim(n) == dim


@pytest.mark.parametrize(
    ("v", "dim", "bit"),
    [
        (0, 3, -1),
        (-1, 3, -1),
        (1, 0, -1),
        (1, 3, 0),
        (5, 3, 2),
        (5, 2, 0),
        (4, 2, -1),
        (6, 3, 2),
    ],
)
def test_hibit_looks_at_the_low_bits_only(v: int, dim: int, bit: int) -> None:
    assert trees.hibit(v, dim) == bit


def test_six_vertices_in_the_high_bit_tree() -> None:
    assert [trees.high_parent(v) for v in range(6)] == [None, 0, 0, 1, 0, 1]
    assert [trees.high_children(v, 6) for v in range(6)] == [
        (1, 2, 4),
        (3, 5),
        (),
        (),
        (),
        (),
    ]


def test_six_vertices_in_the_low_bit_tree() -> None:
    assert [trees.low_parent(v) for v in range(6)] == [None, 0, 0, 2, 0, 4]
    assert [trees.low_children(v, 6) for v in range(6)] == [
        (1, 2, 4),
        (),
        (3,),
        (),
        (5,),
        (),
    ]


@pytest.mark.parametrize("n", range(1, 70))
def test_parents_and_children_are_each_others_and_reach_everybody(n: int) -> None:
    for parent, children in (
        (trees.high_parent, trees.high_children),
        (trees.low_parent, trees.low_children),
    ):
        below = [c for v in range(n) for c in children(v, n)]
        assert sorted(below) == list(range(1, n))
        assert all(parent(c) == v for v in range(n) for c in children(v, n))
        assert all(list(children(v, n)) == sorted(children(v, n)) for v in range(n))


@pytest.mark.parametrize("n", range(1, 70))
def test_below_a_vertex_of_the_low_bit_tree_is_no_gap(n: int) -> None:
    def below(v: int) -> list[int]:
        return [v, *(u for c in trees.low_children(v, n) for u in below(c))]

    assert all(below(v) == list(range(v, v + len(below(v)))) for v in range(n))
