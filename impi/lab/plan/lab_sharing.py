"""The rule by which cells share labs: a cell may run in a lab that has more nodes than it needs.

:func:`share` gives each cell a :class:`Place`: the vendors and topology of a lab, and the nodes of
that lab which the cell uses. The number of procs of a lab does not matter. In three cases a cell
runs in a lab of exactly its own vendors and topology:

* The cell damages the network or a node, and traces of the damage could harm other cells.
* A client has several nodes, which find each other by host names that cannot change.
* The cell needs nodes of another kind: with IPv6, with compiled programs, or of a remote party.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from impi.lab.nodes import Topology, is_remote, node_names
from impi.lab.plan.cell import Cell

# Settings of a variant that change links, routes or nodes. The setting ``source`` adds an address
# and is harmless: the address is removed again, or the cell ends in an error of the lab.
_CHANGES: Final = frozenset(("fault", "ip", "net", "reach"))
_SEVERAL_NODES: Final = 2


@dataclass(frozen=True, slots=True)
class Place:
    """The lab of a cell, and the nodes of it that the cell uses."""

    # Equal for cells that may run in the same lab
    kind: tuple[tuple[str, ...], str]
    vendors: tuple[str, ...]
    topology: Topology
    # Pairs of the cell's and the lab's name of a node; empty: a lab of the cell's own kind.
    nodes: tuple[tuple[str, str], ...] = ()


def own_place(cell: Cell) -> Place:
    """Return the place of a cell in a lab of exactly its vendors and topology."""
    return Place(cell.lab, cell.vendors, cell.topology)


def share(cells: Sequence[Cell], *, parts: bool = True) -> Mapping[str, Place]:
    """Return the place of each cell, by the cell's id.

    Args:
        cells: of one run.
        parts: whether cells can use a part of a lab. If not, the lab of each cell has exactly the
            vendors and topology of the cell.
    """

    places = {cell.id: own_place(cell) for cell in cells}
    if not parts:
        return places

    moving: dict[tuple[str, ...], list[Cell]] = {}
    hosts: dict[Place, int] = {}
    for cell in cells:
        place = places[cell.id]
        if _moves(cell):
            moving.setdefault(cell.vendors, []).append(cell)
        elif _serves(cell):
            hosts[place] = hosts.get(place, 0) + cell.roster.size

    # Cells with the most clients come first: they fit the fewest labs, and their labs fit the rest.
    for vendors, group in sorted(
        moving.items(), key=lambda item: (-len(item[0]), -len(item[1]))
    ):
        fitting = [host for host in hosts if _nodes(host, vendors)]
        if fitting:
            # the least busy one: several labs run their cells at the same time
            host = min(fitting, key=lambda each: hosts[each])
        else:
            host = places[group[0].id]

        hosts[host] = hosts.get(host, 0) + sum(cell.roster.size for cell in group)
        for cell in group:
            nodes = () if places[cell.id] == host else _nodes(host, vendors)
            places[cell.id] = Place(host.kind, host.vendors, host.topology, nodes)

    return places


def labs_of(cells: Iterable[Cell], *, parts: bool) -> int:
    """Return the number of different labs that the cells need."""
    return len({place.kind for place in share(list(cells), parts=parts).values()})


def _serves(cell: Cell) -> bool:
    """Whether other cells may run in the lab of this one."""
    return not (
        _CHANGES & cell.settings.keys()
        or "network" in cell.case.tags
        or cell.compiled
        or cell.case.own is not None
        or any(map(is_remote, cell.vendors))
    )


def _moves(cell: Cell) -> bool:
    """Whether the cell may run in a part of another lab."""
    return _serves(cell) and all(
        shape.nodes < _SEVERAL_NODES for shape in cell.topology.clients
    )


def _nodes(host: Place, vendors: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return the server and one node of the lab for each vendor; empty if the lab lacks a node."""
    free = [
        (vendor, name)
        for vendor, names in zip(
            host.vendors, node_names(host.topology, host.vendors), strict=True
        )
        for name in names
    ]
    if Counter(vendors) - Counter(vendor for vendor, _ in free):
        return ()

    found = [("server", "server")]
    for client, wanted in enumerate(vendors):
        chosen = next(each for each in free if each[0] == wanted)
        free.remove(chosen)
        found.append((f"c{client}n0", chosen[1]))

    return tuple(found)
