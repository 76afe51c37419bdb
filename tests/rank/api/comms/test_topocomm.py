"""Communicators with a topology: what they tell of it, on a job of one proc."""

from __future__ import annotations

from collections.abc import Callable


def test_a_grid(alone: Callable[..., list[str]]) -> None:
    alone("""
grid = MPI.COMM_WORLD.Create_cart([1, 1], [True, False])
assert type(grid) is MPI.Cartcomm and grid.topology == MPI.CART and grid.is_topo
assert (grid.dim, grid.dims, grid.periods, grid.coords) == (2, [1, 1], [1, 0], [0, 0])
assert (grid.Shift(0, 1), grid.Shift(1, 1)) == ((0, 0), (MPI.PROC_NULL, MPI.PROC_NULL))
assert (grid.Get_cart_rank([3, 0]), grid.Get_coords(0)) == (0, [0, 0])
# Down and up of a ring of one is this process, beyond the edge is nobody.
assert grid.inoutedges == ([0, 0, MPI.PROC_NULL, MPI.PROC_NULL],) * 2
assert (grid.indegree, grid.outdegree) == (4, 4)
line = grid.Sub([False, True])
assert (line.dims, line.periods) == ([1], [0])
for call, argument in ((grid.Get_cart_rank, [0]), (grid.Sub, [True])):
    try:
        call(argument)
    except ValueError as failure:
        print(failure)
refused(MPI.ERR_ARG, MPI.COMM_WORLD.Create_cart, [2])
assert MPI.COMM_WORLD.Cart_map([1]) == 0
""")


def test_graphs(alone: Callable[..., list[str]]) -> None:
    alone("""
graph = MPI.COMM_WORLD.Create_graph([2], [0, 0])
assert type(graph) is MPI.Graphcomm and graph.topology == MPI.GRAPH
assert (graph.dims, graph.index, graph.edges) == ((1, 2), [2], [0, 0])
assert (graph.nneighbors, graph.neighbors, graph.degrees) == (2, [0, 0], (2, 2))
own = MPI.COMM_WORLD.Create_dist_graph_adjacent([0], [0, 0], [7], [8, 9])
assert type(own) is MPI.Distgraphcomm and own.topology == MPI.DIST_GRAPH
assert own.Get_dist_neighbors_count() == (1, 2, True)
assert own.Get_dist_neighbors() == ([0], [0, 0], ([7], [8, 9]))
bare = MPI.COMM_WORLD.Create_dist_graph([0], [2], [0, 0])
assert bare.Get_dist_neighbors() == ([0, 0], [0, 0], None)
assert bare.neighbor_allgather("x") == ["x", "x"]
""")


def test_only_a_communicator_of_that_kind_is_one(
    alone: Callable[..., list[str]],
) -> None:
    alone("""
kinds = {
    MPI.Cartcomm: MPI.COMM_WORLD.Create_cart([1]),
    MPI.Graphcomm: MPI.COMM_WORLD.Create_graph([1], [0]),
    MPI.Distgraphcomm: MPI.COMM_WORLD.Create_dist_graph([0], [1], [0]),
    MPI.Intracomm: MPI.COMM_WORLD,
}
for cls in kinds:
    for other, comm in kinds.items():
        if cls in (other, MPI.Intracomm):
            assert cls(comm) == comm
            continue
        try:
            cls(comm)
        except TypeError:
            continue
        raise AssertionError((cls, comm))
""")
