"""The gate of a phase: ranks of some nodes come to it, and wait until the lab opens it.

A waiting program on each node (:mod:`impi.lab.programs.stage`) prints the ranks there once all
have come. :class:`PhaseGate` starts these programs and looks whether all are done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import LabError
from impi.lab.nodes import Lab, Network, Node, Roster, RunningCommand

_STAGE: Final = (Path(__file__).parents[1] / "programs/stage.py").read_text("utf-8")


class PhaseGate:
    """One phase of a cell, on the nodes whose ranks are awaited."""

    def __init__(
        self, phase: str, lab: Lab, roster: Roster, folders: Mapping[str, str]
    ) -> None:
        """``folders``: the cell's folder on each node of a client."""

        self.phase = phase
        self._lab, self._folders = lab, folders
        self._counts = {
            node.name: len(roster.on_node(node.name))
            for nodes in lab.clients
            for node in nodes
        }
        self._waiters: dict[str, RunningCommand] = {}

    def begin(self, nodes: Sequence[Node], limit_s: float) -> None:
        for node in nodes:
            words = (
                self._folders[node.name],
                self.phase,
                str(self._counts[node.name]),
                str(limit_s),
            )
            self._waiters[node.name] = node.start(
                node_program(self._lab, _STAGE, *words)
            )

    def ranks(self) -> dict[str, dict[int, int]] | None:
        """Process ids by node and rank in the client, once all have come; None before that."""
        found: dict[str, dict[int, int]] = {}
        for name, waiter in self._waiters.items():
            done = waiter.poll()
            if done is None:
                return None

            found[name] = {
                rank: int(pid) for pid, rank in json.loads(done.stdout or b"{}").items()
            }
            if len(found[name]) < self._counts[name]:
                return None  # the limit is over: some ranks never came this far

        return found

    def open(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            node.write(f"{self._folders[node.name]}/open-{self.phase}", b"")

    def stop(self) -> None:
        for waiter in self._waiters.values():
            if waiter.poll() is None:
                waiter.stop()


def node_program(lab: Lab, program: str, *words: str) -> list[str]:
    """Return the argv that runs a Python text on a node, without site packages."""
    return [lab.access.python, "-I", "-S", "-c", program, *words]


def network_of(lab: Lab) -> Network:
    """Return the lab's network; LabError: the backend cannot change it."""
    if lab.network is None:
        raise LabError("the network of this lab cannot be changed")

    return lab.network
