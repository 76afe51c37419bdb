"""The fault of a cell: waits for its phase, causes it, ends it, and lets the ranks go on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from impi.testbed.cases.network_faults import FAULTS
from impi.testbed.evidence.evidence import FaultSeen
from impi.testbed.lab.interface import Lab, Node
from impi.testbed.lab.lab_links import Direction, both_ways
from impi.testbed.lab.lab_reach import Reach
from impi.testbed.lab.roster import Roster
from impi.testbed.run.phase_gate import PhaseGate, network_of, node_program

_KNOCK: Final = """
import socket, sys
for address in sys.argv[1:]:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as knocking:
        knocking.settimeout(0.05)
        knocking.connect_ex((address, 9))
"""
_KILL_S: Final = 10.0
_CUT: Final = ("partition", "cuts")
_LOOK_EACH_S: Final = 0.5


class Interference:
    """One fault, ``KIND@PHASE``; :meth:`turn` is called again and again while the job runs."""

    def __init__(self, value: str, lab: Lab, roster: Roster, folders: Mapping[str, str], limit_s: float) -> None:
        """``folders``: the cell's folder on each node of a client."""
        self._kind, _, phase = value.partition("@")
        self._fault = FAULTS[self._kind]
        self._lab, self._limit_s = lab, limit_s
        self._gate = PhaseGate(phase, lab, roster, folders)
        self._began = self._ended = self._look_at = 0.0
        self._frozen = False
        self._times = 0

    @property
    def _nodes(self) -> list[Node]:
        return [node for nodes in self._lab.clients for node in nodes]

    @property
    def _last(self) -> Node:
        return self._lab.clients[-1][-1]

    def begin(self) -> None:
        """Wait for the phase on every node, without blocking."""
        if self._kind != "pause":
            # Sidecars start now: at the phase they would take time that ranks do not wait.
            network_of(self._lab).prepare([node.name for node in self._nodes])
        self._gate.begin(self._nodes, self._limit_s)

    def turn(self) -> None:
        """Cause it if all ranks have reached the phase; end it if it has lasted so long."""
        if not self._began:
            if self._gate.ranks() is None:
                return
            self._cause()
            # A frozen node cannot be told.
            self._gate.open([node for node in self._nodes if not (self._kind == "pause" and node is self._last)])
        elif self._fault.lasts_s and not self._ended and self._is_over():
            self.undo()
            self._gate.open([self._last])
        elif self._comes_again():
            self._cause()

    def _comes_again(self) -> bool:
        return bool(self._fault.again_s and self._ended and time.monotonic() > self._ended + self._fault.again_s)

    def _is_over(self) -> bool:
        """Whether it has lasted so long; a partition, too, until a packet was refused."""
        now = time.monotonic()
        if now < max(self._began + self._fault.lasts_s, self._look_at):
            return False
        self._look_at = now + _LOOK_EACH_S
        return self._kind != "partition" or any(cut.refused for cut in network_of(self._lab).seen().cuts)

    def undo(self) -> None:
        """End it, if it has begun and is not over."""
        if not self._began or self._ended:
            return
        self._ended = time.monotonic()
        if self._kind == "pause":
            self._frozen = network_of(self._lab).thaw(self._last.name)
        elif self._kind in _CUT:
            network_of(self._lab).heal(self._directions(), "drop")

    def stop(self) -> None:
        """End the programs that wait."""
        self._gate.stop()

    def seen(self) -> FaultSeen:
        """What has happened of it."""
        cuts = self._lab.network.seen().cuts if self._lab.network is not None and self._began else ()
        return FaultSeen(
            kind=self._kind,
            phase=self._gate.phase,
            began=bool(self._began),
            lasted_s=round(self._ended - self._began, 3) if self._ended else 0.0,
            frozen=self._frozen,
            times=self._times,
            refused=sum(cut.refused for cut in cuts),
        )

    # -- what it does

    def _cause(self) -> None:
        if self._kind in _CUT:
            network_of(self._lab).cut(self._directions(), "drop")
        elif self._kind == "reset":
            network_of(self._lab).cut(self._directions(), "reset")
        else:
            network_of(self._lab).freeze(self._last.name)
        self._began, self._ended = time.monotonic(), 0.0
        self._times += 1

    def _directions(self) -> list[Direction]:
        """All directions between nodes of two clients."""
        groups = [[node.name for node in nodes] for nodes in self._lab.clients]
        return [pair for i, one in enumerate(groups) for other in groups[i + 1 :] for pair in both_ways(one, other)]


def impose(lab: Lab, nodes: Sequence[Node], reach: Reach) -> None:
    """Close ways, let somebody try them, and open those through gateways."""
    network = network_of(lab)
    for how, directions in reach.closed.items():
        network.cut(directions, how)
    knock(lab, nodes, [direction for directions in reach.closed.values() for direction in directions])
    if reach.via:
        network.route(reach.via, reach.gateways, bool(reach.translated))


def knock(lab: Lab, nodes: Sequence[Node], directions: Sequence[Direction]) -> None:
    """Try to connect in these directions, so that it is counted that nobody can; before the job."""
    addresses = {node.name: node.address for node in nodes}
    knocking = []
    for node in nodes:
        targets = [addresses[b] for a, b in directions if a == node.name]
        if targets:
            knocking.append(node.start(node_program(lab, _KNOCK, *targets)))
    for command in knocking:
        command.wait(_KILL_S)
