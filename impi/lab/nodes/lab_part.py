"""A part of a lab: some of its nodes, which run a cell with fewer clients under the cell's names.

:class:`LabPart` is a :class:`~.interface.Lab`. It belongs to a whole lab, a :class:`SharedLab`,
which runs one cell at a time. The other nodes of the whole lab stand idle meanwhile: only the nodes
of the part are captured and swept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from impi.lab.nodes.interface import Access, Capture, Lab, Node, NodeAccess, Stacks
from impi.lab.nodes.links import Network
from impi.lab.nodes.parties import node_names
from impi.lab.nodes.topology import Topology


class SharedLab(Lab, Protocol):
    """A lab whose nodes can be used a few at a time."""

    def renamed(self, node: str, name: str) -> Node:
        """Return a node under another name."""

    def network_among(self, nodes: Mapping[str, NodeAccess]) -> Network:
        """Return the network of these nodes, under the names that a part gives them."""

    def software_of(
        self, access: Access, server: Node, clients: Sequence[Sequence[Node]]
    ) -> Mapping[str, str]:
        """Return image ids and package versions of these nodes, for the records."""

    def begin_capture(self, only: Collection[str] = ...) -> None:
        """Do as any lab does, but on the nodes ``only`` alone, if given."""

    def end_capture(self, only: Collection[str] = ...) -> list[Capture]:
        """Do as any lab does, but for the nodes ``only`` alone, if given."""

    def residue(
        self, known: Collection[str] = ..., only: Collection[str] = ...
    ) -> list[str]:
        """Do as any lab does, but on the nodes ``only`` alone, if given."""


class LabPart:
    """A :class:`~.interface.Lab` made of some nodes of another lab, which it never closes.

    Args:
        whole: the lab that the nodes belong to.
        vendors, topology: those of the cell.
        nodes: the whole lab's name of each node, by the cell's name of it; the server, too.
        left: residue of earlier cells in all parts of the lab, under the whole lab's node names.
    """

    server: Node
    clients: Sequence[Sequence[Node]]

    def __init__(
        self,
        whole: SharedLab,
        vendors: Sequence[str],
        topology: Topology,
        nodes: Mapping[str, str],
        left: set[str],
    ) -> None:
        self._whole, self._names, self._left = whole, dict(nodes), left
        self._shown = {node: name for name, node in nodes.items()}
        self.captures, self.unseen = whole.captures, whole.unseen
        self.access = _access(whole.access, vendors, topology, nodes)
        made = {name: whole.renamed(node, name) for name, node in nodes.items()}
        self.server = made["server"]
        self.clients = [
            [made[name] for name in names] for names in node_names(topology, vendors)
        ]
        self.network: Network | None = whole.network_among(self.access.nodes)
        self.software = whole.software_of(self.access, self.server, self.clients)

    def begin_capture(self) -> None:
        self._whole.begin_capture(self._names.values())

    def end_capture(self) -> list[Capture]:
        captures = self._whole.end_capture(self._names.values())
        return [replace(each, node=self._shown[each.node]) for each in captures]

    def stacks(self, pids: Mapping[str, Sequence[int]]) -> Stacks:
        found = self._whole.stacks({self._names[n]: mine for n, mine in pids.items()})
        frames = {self._shown[node]: each for node, each in found.frames.items()}

        return replace(found, frames=frames)

    def residue(self, known: Collection[str] = ()) -> list[str]:
        # Lines in ``known`` use this part's node names; another part may name a node differently.
        found = self._whole.residue(self._left, self._names.values())
        self._left.update(line for line in found if ": file " in line)
        lines = [line.partition(": ") for line in found]

        return [
            line
            for node, _, text in lines
            if (line := f"{self._shown[node]}: {text}") not in known
        ]

    def hold(self) -> None:
        self._whole.hold()

    def close(self) -> None:
        """Do nothing: other parts of the lab may be in use later."""


def _access(
    whole: Access,
    vendors: Sequence[str],
    topology: Topology,
    nodes: Mapping[str, str],
) -> Access:
    environment = {name: whole.environment[node] for name, node in nodes.items()}
    # Commands on the server's node get the variables of client 0.
    environment["server"] = environment[node_names(topology, vendors)[0][0]]
    others = set(whole.vendors) - {*vendors, "pure"}

    return replace(
        whole,
        vendors=tuple(vendors),
        topology=topology,
        nodes={name: whole.nodes[node] for name, node in nodes.items()},
        environment=environment,
        images={
            name: each for name, each in whole.images.items() if name not in others
        },
        builds={
            name: each for name, each in whole.builds.items() if name not in others
        },
    )
