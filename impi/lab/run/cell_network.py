"""The network of a cell: links between parties as its variant wants them, and undoing that."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from impi.lab.nodes import Direction, Lab, NetworkSeen, Node, parse_links
from impi.lab.nodes.reach import Reach, is_loopback, reach_of
from impi.lab.plan.cell import Cell
from impi.lab.run.phase_gate import network_of, node_program

_KNOCK: Final = """
import socket, sys
for address in sys.argv[1:]:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as knocking:
        knocking.settimeout(0.05)
        knocking.connect_ex((address, 9))
"""
_KNOCKED_S: Final = 10.0


class CellNetwork:
    """The changes of a lab's network for one cell."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        # Addresses of nodes that others see by another address
        self.hidden: list[str] = []
        # counts of links that were made worse; None: none were
        self.seen: NetworkSeen | None = None

    def make_worse(self, cell: Cell) -> None:
        """Change the links and ways as the variant says.

        Raises:
            LabError: they cannot be changed.
        """

        settings = cell.settings

        # On loopback all nodes have the second address anyway.
        second = "source" in settings and not is_loopback(self._lab.server.address)
        if not (
            second
            or "reach" in settings
            or "net" in settings
            or settings.get("ip") == "two"
        ):
            return

        network = network_of(self._lab)
        self.seen = NetworkSeen()
        nodes = [self._lab.server, *itertools.chain(*self._lab.clients)]

        names = [node.name for node in nodes]
        if settings.get("ip") == "two":
            network.add_second(names)

        if second:
            last = [node.name for node in self._lab.clients[-1]]
            network.add_second(last, [name for name in names if name not in last])

        if "reach" in settings:
            self._restrict(reach_of(settings["reach"], names), nodes)

        if "net" in settings:
            network.set_links(parse_links(settings["net"], names))

    def _restrict(self, reach: Reach, nodes: Sequence[Node]) -> None:
        """Restrict who reaches whom, and note the addresses that are hidden by it."""
        self.hidden = [node.address for node in nodes if node.name in reach.translated]
        impose(self._lab, nodes, reach)

    def restore(self, *, faulty: bool) -> None:
        """Count what happened on the links, and undo all changes.

        Args:
            faulty: whether a fault may have changed them, too.
        """

        network = self._lab.network
        if network is None:
            return

        if self.seen is not None:
            self.seen = network.seen()

        if self.seen is not None or faulty:
            network.clear()


def impose(lab: Lab, nodes: Sequence[Node], reach: Reach) -> None:
    """Close ways, let nodes try them in vain, and open the ways through gateways."""

    network = network_of(lab)
    for how, directions in reach.closed.items():
        network.cut(directions, how)

    _knock(
        lab,
        nodes,
        [direction for directions in reach.closed.values() for direction in directions],
    )
    if reach.via:
        network.route(reach.via, reach.gateways, bool(reach.translated))


def _knock(lab: Lab, nodes: Sequence[Node], directions: Sequence[Direction]) -> None:
    """Try to connect in these directions before the job: counts then prove that they are closed."""
    addresses = {node.name: node.address for node in nodes}

    targets = {
        node: [addresses[b] for a, b in directions if a == node.name] for node in nodes
    }
    for command in [
        node.start(node_program(lab, _KNOCK, *found))
        for node, found in targets.items()
        if found
    ]:
        command.wait(_KNOCKED_S)
