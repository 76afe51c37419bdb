"""A lab in which all ranks come to each phase of a fault, and time that the test tells."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from forge import FakeBackend, FakeCommand

from impi.base.remote.supervised import Completed
from impi.lab.cases.ends.fault_matrix import HITS
from impi.lab.nodes.interface import Lab
from impi.lab.nodes.roster import Roster
from impi.lab.nodes.topology import parse_topology
from impi.lab.run import damage, fault_driver
from impi.lab.run.cell_commands import SERVER, Commands, Who, witness
from impi.lab.run.cell_commands import impirun as client
from impi.lab.run.fault_driver import FaultDriver


class World:
    """A lab in which all ranks come to each phase, and time that the test tells."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        topology: str = "1x2+1x2",
        told: object = None,
    ) -> None:
        self.backend = FakeBackend()
        self.lab: Lab = self.backend.open(
            ["pure", "pure"], parse_topology(topology), run="r"
        )
        self.roster = Roster.of(self.lab.access.topology, ["pure", "pure"])
        self.asked: list[list[str]] = []
        self.now, self.started = 100.0, list[int]()
        self.commands = Commands(key=7)
        for who in (SERVER, client(0)):
            self.commands.add(
                who, FakeCommand(Completed(argv=(), code=0, stdout=b"", stderr=b""))
            )
        told = (
            told
            if told is not None
            else {"pid": 77, "what": "python", "at": 5.0, "still": True, "ended": True}
        )
        for node in (
            self.lab.server,
            *(node for nodes in self.lab.clients for node in nodes),
        ):
            monkeypatch.setattr(
                node, "start", lambda argv, env=None: self._start(argv, told)
            )
        clock = SimpleNamespace(
            monotonic=lambda: self.now, time=lambda: 1000 + self.now
        )
        for module in (damage, fault_driver):
            monkeypatch.setattr(module, "time", clock)

    def _start(self, argv: list[str], told: object) -> FakeCommand:
        words = argv[5:]
        if words[0] == "cell":
            told = {"31": 0, "32": 1}
        else:
            self.asked.append(words)
        return FakeCommand(
            Completed(argv=(), code=0, stdout=json.dumps(told).encode(), stderr=b"")
        )

    def strike(self, value: str) -> FaultDriver:
        folders = {node.name: "cell" for nodes in self.lab.clients for node in nodes}
        found = FaultDriver(
            HITS[value], self.lab, self.roster, folders, self.commands, (30.0, 10.0)
        )
        found.begin()
        return found

    def lost(self) -> set[Who]:
        """The commands that count as killed."""
        nodes = [node.name for nodes in self.lab.clients for node in nodes]
        every = [SERVER, client(0), client(1), *map(witness, nodes)]
        return {
            who
            for who in every
            if (done := self.commands.ended(who)) is not None and done.code == -9
        }

    def opened(self, phase: str) -> list[int]:
        """The clients whose ranks may go on."""
        return [
            i
            for i, nodes in enumerate(self.lab.clients)
            if nodes[0].read(f"cell/open-{phase}") is not None
        ]
