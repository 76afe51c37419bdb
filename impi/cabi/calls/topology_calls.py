"""Topologies in C: arrays whose lengths follow from the communicator, and optional weights."""

from __future__ import annotations

from typing import Final

from impi.cabi.objects import link
from impi.cabi.objects.abi_constants import RANKS
from impi.cabi.objects.link import MPI, Object, Pointer, ffi
from impi.cabi.objects.program_memory import fill
from impi.protocol.semantics.errors import error


def _special(name: str) -> int:
    """Return the address that stands for a special value; MPICH keeps it in a variable."""
    value = link.abi.constants[name]
    return (
        int(ffi.cast("intptr_t *", link.symbols[value])[0])
        if isinstance(value, str)
        else value
    )


_UNWEIGHTED: Final = _special("UNWEIGHTED")
_EMPTY: Final = _special("WEIGHTS_EMPTY")


def _row(place: Pointer, number: int) -> list[int]:
    return ffi.unpack(place, number) if number > 0 else []


def cart_rank(comm: Object, coords: Pointer) -> int:
    """Return the rank at coordinates."""
    return comm.Get_cart_rank(_row(coords, comm.Get_dim()))  # type: ignore[no-any-return]


def cart_sub(comm: Object, remain: Pointer) -> Object:
    """Return the part of a grid with some of its dimensions."""
    return comm.Sub([bool(kept) for kept in _row(remain, comm.Get_dim())])


def dims(nodes: int, number: int, place: Pointer) -> None:
    """Write balanced dimensions in place of the zeros (MPI_Dims_create)."""
    for i, size in enumerate(MPI.Compute_dims(nodes, _row(place, number))):
        place[i] = size


def graph(
    comm: Object, nodes: int, index: Pointer, edges: Pointer, reorder: bool
) -> Object:
    """Return a communicator with a graph."""
    # MPI's index is cumulative, so the last one is the number of all edges.
    ends = _row(index, nodes)
    return comm.Create_graph(ends, _row(edges, ends[-1] if ends else 0), reorder)


def graph_map(comm: Object, nodes: int, index: Pointer, edges: Pointer) -> int:
    """Return this proc's rank in a graph (MPI_Graph_map)."""
    ends = _row(index, nodes)
    return comm.Graph_map(ends, _row(edges, ends[-1] if ends else 0))  # type: ignore[no-any-return]


def graph_get(
    comm: Object, most_index: int, most_edges: int
) -> tuple[list[int], list[int]]:
    """Return index and edges of a graph, cut to the room that the program has."""
    index, edges = comm.Get_topo()
    return index[:most_index], edges[:most_edges]


def _weights(place: Pointer, number: int) -> Object:
    address = int(ffi.cast("intptr_t", place))
    # The address itself is the constant, and nothing is read there.
    if address == _EMPTY:
        return []

    return None if address == _UNWEIGHTED else _row(place, number)


def dist_graph(
    comm: Object,
    number: int,
    sources: Pointer,
    degrees: Pointer,
    destinations: Pointer,
    weights: Pointer,
    info: Object,
    reorder: bool,
) -> Object:
    """Return a communicator with a graph: each proc gives some of its edges."""
    many = _row(degrees, number)
    given = _weights(weights, sum(many))

    return comm.Create_dist_graph(
        _row(sources, number),
        many,
        RANKS.each(_row(destinations, sum(many))),
        given,
        info,
        reorder,
    )


def dist_graph_adjacent(
    comm: Object,
    into: int,
    sources: Pointer,
    source_weights: Pointer,
    out: int,
    destinations: Pointer,
    dest_weights: Pointer,
    info: Object,
    reorder: bool,
) -> Object:
    """Return a communicator with a graph: each proc gives the edges at itself."""
    incoming, outgoing = _weights(source_weights, into), _weights(dest_weights, out)
    if (incoming is None) != (outgoing is None) and into and out:
        raise error("ERR_ARG", "MPI_UNWEIGHTED is for both rows of weights or for none")

    return comm.Create_dist_graph_adjacent(
        RANKS.each(_row(sources, into)),
        RANKS.each(_row(destinations, out)),
        incoming,
        outgoing,
        info,
        reorder,
    )


def dist_neighbors(
    comm: Object,
    most_in: int,
    sources: Pointer,
    source_weights: Pointer,
    most_out: int,
    destinations: Pointer,
    dest_weights: Pointer,
) -> None:
    """Write the neighbours of this proc and the weights of its edges, up to the given lengths."""

    incoming, outgoing, weights = comm.Get_dist_neighbors()
    fill(sources, [RANKS.reverse.get(rank, rank) for rank in incoming[:most_in]])

    fill(destinations, [RANKS.reverse.get(rank, rank) for rank in outgoing[:most_out]])
    for place, row, most in zip(
        (source_weights, dest_weights),
        weights or (None, None),
        (most_in, most_out),
        strict=True,
    ):
        if row is not None and int(ffi.cast("intptr_t", place)) not in (
            _UNWEIGHTED,
            _EMPTY,
        ):
            fill(place, row[:most])
