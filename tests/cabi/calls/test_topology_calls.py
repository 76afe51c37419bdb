"""Topologies: rows whose lengths follow from others, and weights that may be absent."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from linked_world import MPI, ffi, number

from impi.cabi.calls import topology_calls
from impi.protocol.semantics.errors import MPIException


class Comm:
    """Notes its calls, and has a graph of its own."""

    def __init__(self):
        self.calls = []
        self.Get_dim = lambda: 2

    def __getattr__(self, name):
        return lambda *given: self.calls.append((name, *given))


def ints(*values):
    return ffi.new("int[]", list(values))


def weights(name):
    return ffi.cast("int *", number(name))


def test_rows_of_a_grid_have_its_dimensions():
    comm = Comm()
    topology_calls.cart_rank(comm, ints(3, 4, 99))
    topology_calls.cart_sub(comm, ints(1, 0, 99))
    assert comm.calls == [("Get_cart_rank", [3, 4]), ("Sub", [True, False])]


def test_dimensions_that_are_given_stay():
    place = ints(0, 3)
    topology_calls.dims(12, 2, place)
    assert list(place) == [4, 3]


def test_the_last_index_of_a_graph_is_its_number_of_edges():
    comm = Comm()
    topology_calls.graph(comm, 2, ints(1, 3), ints(1, 0, 1, 99), True)
    topology_calls.graph_map(comm, 0, ffi.NULL, ffi.NULL)
    assert comm.calls == [
        ("Create_graph", [1, 3], [1, 0, 1], True),
        ("Graph_map", [], []),
    ]
    found = SimpleNamespace(Get_topo=lambda: ([1, 3], [1, 0, 1]))
    assert topology_calls.graph_get(found, 1, 2) == ([1], [1, 0])


def test_edges_of_a_distributed_graph():
    comm = Comm()
    args = (ints(0, 1), ints(1, 2), ints(5, number("PROC_NULL"), 7))
    topology_calls.dist_graph(comm, 2, *args, ints(8, 9, 10), "info", False)
    topology_calls.dist_graph(comm, 2, *args, weights("UNWEIGHTED"), "info", False)
    edges = ([0, 1], [1, 2], [5, MPI.PROC_NULL, 7])
    assert comm.calls == [
        ("Create_dist_graph", *edges, [8, 9, 10], "info", False),
        ("Create_dist_graph", *edges, None, "info", False),
    ]


def test_weights_are_for_both_rows_or_for_none():
    comm, one = Comm(), ints(0)
    given = (1, one, weights("UNWEIGHTED"), 1, one)
    with pytest.raises(
        MPIException, match="MPI_UNWEIGHTED is for both rows of weights or for none"
    ):
        topology_calls.dist_graph_adjacent(comm, *given, ints(4), "info", False)
    topology_calls.dist_graph_adjacent(
        comm, 0, one, weights("WEIGHTS_EMPTY"), 1, one, ints(4), "info", False
    )
    assert comm.calls == [
        ("Create_dist_graph_adjacent", [], [0], [], [4], "info", False)
    ]


def test_neighbours_are_written_up_to_the_room():
    comm = SimpleNamespace(
        Get_dist_neighbors=lambda: ([0, MPI.PROC_NULL], [2], ([6, 7], [8]))
    )
    sources, into, destinations = ints(-9, -9, -9), ints(-9, -9, -9), ints(-9)
    topology_calls.dist_neighbors(
        comm, 2, sources, into, 1, destinations, weights("UNWEIGHTED")
    )
    assert list(sources) == [0, number("PROC_NULL"), -9]
    assert (list(into), list(destinations)) == ([6, 7, -9], [2])
