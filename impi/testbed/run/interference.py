"""The fault of a cell: waits for its phase, causes it, ends it, and lets the ranks go on."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.errors import LabError
from impi.testbed.cases.network_faults import FAULTS
from impi.testbed.evidence.evidence import FaultSeen
from impi.testbed.lab.interface import Lab, Node, RunningCommand
from impi.testbed.lab.lab_links import Direction, Network, both_ways
from impi.testbed.lab.roster import Roster

_PROGRAM: Final = (Path(__file__).parents[1] / "programs/stage.py").read_text("utf-8")
_KNOCK: Final = """
import socket, sys
for address in sys.argv[1:]:
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as knocking:
        knocking.settimeout(0.05)
        knocking.connect_ex((address, 9))
"""
_KILL_S: Final = 10.0
_LOOK_EACH_S: Final = 0.5


class Interference:
    """One fault, ``KIND@PHASE``; :meth:`turn` is called again and again while the job runs."""

    def __init__(self, value: str, lab: Lab, roster: Roster, folders: Mapping[str, str], limit_s: float) -> None:
        """``folders``: the cell's folder on each node of a client."""
        self._kind, _, self.phase = value.partition("@")
        self._fault = FAULTS[self._kind]
        self._lab, self._roster, self._folders = lab, roster, folders
        self._limit_s = limit_s
        self._waiters: dict[str, RunningCommand] = {}
        self._pids: dict[str, list[int]] = {}
        self._began = self._ended = self._look_at = 0.0
        self._frozen = False

    @property
    def _nodes(self) -> list[Node]:
        return [node for nodes in self._lab.clients for node in nodes]

    @property
    def _last(self) -> Node:
        return self._lab.clients[-1][-1]

    def begin(self) -> None:
        """Wait for the phase on every node, without blocking."""
        for node in self._nodes:
            count = len(self._roster.on_node(node.name))
            argv = self._stage("wait", self._folders[node.name], self.phase, str(count), str(self._limit_s))
            self._waiters[node.name] = node.start(argv)

    def turn(self) -> None:
        """Cause it if all ranks have reached the phase; end it if it has lasted so long."""
        if not self._began:
            for node in self._nodes:
                done = self._waiters[node.name].poll()
                if done is None:
                    return
                self._pids[node.name] = json.loads(done.stdout or b"[]")
            if not all(len(self._pids[n.name]) == len(self._roster.on_node(n.name)) for n in self._nodes):
                return  # they never came so far
            self._cause()
            self._began = time.monotonic()
            # A frozen node cannot be told.
            self._open([node for node in self._nodes if not (self._kind == "pause" and node is self._last)])
        elif self._fault.lasts_s and not self._ended and self._is_over():
            self.undo()
            self._open([self._last])

    def _is_over(self) -> bool:
        """Whether it has lasted so long; a partition, too, until a packet was refused."""
        now = time.monotonic()
        if now < max(self._began + self._fault.lasts_s, self._look_at):
            return False
        self._look_at = now + _LOOK_EACH_S
        return self._kind != "partition" or any(cut.refused for cut in self._network.seen().cuts)

    def undo(self) -> None:
        """End it, if it has begun and is not over."""
        if not self._began or self._ended:
            return
        self._ended = time.monotonic()
        if self._kind == "pause":
            self._frozen = self._network.thaw(self._last.name)
        elif self._kind == "partition":
            self._network.heal(self._directions(), "drop")

    def stop(self) -> None:
        """End what waits."""
        for waiter in self._waiters.values():
            if waiter.poll() is None:
                waiter.stop()

    def seen(self) -> FaultSeen:
        """What has happened of it."""
        cuts = self._lab.network.seen().cuts if self._lab.network is not None and self._began else ()
        return FaultSeen(
            kind=self._kind,
            phase=self.phase,
            began=bool(self._began),
            lasted_s=round(self._ended - self._began, 3) if self._ended else 0.0,
            frozen=self._frozen,
            refused=sum(cut.refused for cut in cuts),
        )

    # -- what it does

    @property
    def _network(self) -> Network:
        if self._lab.network is None:
            raise LabError("the network of this lab cannot be changed")
        return self._lab.network

    def _cause(self) -> None:
        if self._kind == "partition":
            self._network.cut(self._directions(), "drop")
        elif self._kind == "reset":
            self._network.cut(self._directions(), "reset")
        else:
            self._network.freeze(self._last.name)

    def _directions(self) -> list[Direction]:
        """All directions between nodes of two clients."""
        groups = [[node.name for node in nodes] for nodes in self._lab.clients]
        return [pair for i, one in enumerate(groups) for other in groups[i + 1 :] for pair in both_ways(one, other)]

    def _stage(self, what: str, *words: str) -> list[str]:
        return [self._lab.access.python, "-I", "-S", "-c", _PROGRAM, what, *words]

    def _open(self, nodes: list[Node]) -> None:
        for node in nodes:
            node.write(f"{self._folders[node.name]}/open-{self.phase}", b"")


def knock(nodes: Sequence[Node], directions: Sequence[Direction], python: str) -> None:
    """Try to connect in these directions, so that it is counted that nobody can; before the job."""
    addresses = {node.name: node.address for node in nodes}
    knocking = []
    for node in nodes:
        targets = [addresses[b] for a, b in directions if a == node.name]
        if targets:
            knocking.append(node.start([python, "-I", "-S", "-c", _KNOCK, *targets]))
    for command in knocking:
        command.wait(_KILL_S)
