from __future__ import annotations

import pytest

from impi.protocol.semantics.constants import PROC_NULL
from impi.protocol.semantics.errors import MPIException
from impi.protocol.semantics.topology import Cart, Graph

GRID = Cart((2, 3), (False, True))


def test_places() -> None:
    assert [GRID.coords(rank) for rank in range(6)] == [
        [0, 0],
        [0, 1],
        [0, 2],
        [1, 0],
        [1, 1],
        [1, 2],
    ]
    assert [GRID.rank(GRID.coords(rank)) for rank in range(6)] == list(range(6))
    assert GRID.rank([1, -1]) == GRID.rank([1, 5]) == 5
    with pytest.raises(MPIException, match="coordinate 2 is not"):
        GRID.rank([2, 0])
    with pytest.raises(MPIException, match="rank 6"):
        GRID.coords(6)


def test_shift() -> None:
    assert GRID.shift(0, 0, 1) == (PROC_NULL, 3)
    assert GRID.shift(4, 0, 1) == (1, PROC_NULL)
    assert GRID.shift(0, 1, 2) == (1, 2)
    assert GRID.neighbors(0) == [PROC_NULL, 3, 2, 1]
    with pytest.raises(MPIException, match="direction 2"):
        GRID.shift(0, 2, 1)


def test_part() -> None:
    assert [GRID.part(rank, [True, False])[1:] for rank in range(6)] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (0, 1),
        (1, 1),
        (2, 1),
    ]
    assert GRID.part(4, [False, True]) == (Cart((3,), (True,)), 1, 1)
    assert GRID.part(4, [False, False]) == (Cart((), ()), 4, 0)


def test_no_dimensions() -> None:
    point = Cart((), ())
    assert (point.size, point.coords(0), point.rank([]), point.neighbors(0)) == (
        1,
        [],
        0,
        [],
    )


def test_graph() -> None:
    graph = Graph((2, 3, 3), (1, 2, 0))
    assert [graph.neighbors(rank) for rank in range(3)] == [[1, 2], [0], []]
    with pytest.raises(MPIException, match="rank 3"):
        graph.neighbors(3)
