"""Collects the evidence of one cell: looks, captures and leftovers, then all of it as values."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event as Flag

from impi.base.errors import ImpiError
from impi.base.remote.supervised import Line
from impi.lab.dissect import Event
from impi.lab.evidence.demands import Demands
from impi.lab.evidence.gathered import Evidence, FaultSeen, LabTold, Look, Nodes, RankSeen, Times, Wire
from impi.lab.evidence.process_snapshot import take_look
from impi.lab.evidence.traffic import apart, examine
from impi.lab.evidence.witness_reports import read_ranks
from impi.lab.judge.cell_facts import Facts
from impi.lab.nodes.interface import ON_HOSTS, Capture
from impi.lab.plan.cell import Cell
from impi.lab.run.byhand import script
from impi.lab.run.cell_commands import SERVER, Commands, impirun, witness
from impi.lab.run.cell_network import CellNetwork
from impi.lab.run.fault_driver import FaultDriver
from impi.lab.run.prepared_lab import Prepared
from impi.lab.run.recipe import Recipe


@dataclass(slots=True)
class Seen:
    """The evidence of a cell, and the files that belong to it."""

    evidence: Evidence
    nonce: str
    captures: list[Capture] = field(default_factory=list)
    command_lines: list[str] = field(default_factory=list)
    script: str = ""  # the cell as a script (:mod:`.byhand`)
    software: Mapping[str, str] = field(default_factory=dict)  # image ids and versions in the cell's lab
    wire: Sequence[Event] = ()  # all events in the captures
    # By command (``server``, ``client 1``): the lines that it printed.
    said: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    began: float = 0.0  # when it was begun (seconds since the epoch, by the orchestrator's clock)

    def facts(self, cell: Cell) -> Facts:
        evidence = self.evidence
        return Facts(case=cell.case, roster=cell.roster, nonce=self.nonce, variant=cell.variant, seen=evidence)


class Collection:
    """The evidence of one attempt at a cell. A fault of the lab becomes ``trouble`` in it.

    Args:
        prepared: the lab where the cell runs.
        cell: what runs.
        recipe: how each command is started.
        commands: those that were.
        hurry: once it is set, nothing more is collected, because its setter closes the lab.
    """

    def __init__(self, prepared: Prepared, cell: Cell, recipe: Recipe, commands: Commands, hurry: Flag) -> None:
        self._prepared, self._cell, self._recipe, self._commands = prepared, cell, recipe, commands
        self._hurry = hurry
        self._began = time.time()
        self.trouble = ""  # the first fault of the lab, in one sentence; empty: it had none
        self.network = CellNetwork(prepared.lab)
        self._capturing = False
        self._captures: list[Capture] = []
        self._look: Look | None = None
        self._fault: FaultSeen | None = None
        self._leftovers: list[str] = []

    def guard(self, action: Callable[[], None]) -> None:
        """Do it, unless there is no time any more; keep the lab's fault, if it fails by one."""
        try:
            if not self._hurry.is_set():
                action()
        except ImpiError as error:
            self.trouble = self.trouble or str(error)

    # -- steps, in their order

    def begin_capture(self) -> None:
        """Begin to capture, where the case wants that."""
        self._capturing = self._cell.case.traffic != "unseen"
        if self._capturing:
            self._prepared.lab.begin_capture()

    def end_fault(self, fault: FaultDriver) -> None:
        fault.undo()
        self._fault = fault.seen()
        fault.stop()

    def take_look(self, why: str) -> None:
        self._look = take_look(self._prepared.lab, self._recipe.folders, why)

    def restore_network(self) -> None:
        self.network.restore(faulty=self._fault is not None)

    def end_capture(self) -> None:
        if self._capturing:
            self._captures.extend(self._prepared.lab.end_capture())

    def sweep(self) -> None:
        files = self._prepared.files
        self._leftovers += self._prepared.lab.residue(files)
        files.update(left for left in self._leftovers if ": file " in left)

    # -- all of it as values

    def seen(self, *, timed_out: bool, limit_s: float) -> Seen:
        """Return the evidence.

        Args:
            timed_out: whether the cell came to the end of its time.
            limit_s: the limit that it was under when it ended.
        """
        prepared, lab, commands, recipe = self._prepared, self._prepared.lab, self._commands, self._recipe
        wire, happened = self._read_wire()
        clients = tuple(commands.seen(impirun(i)) for i in range(len(lab.clients)))
        evidence = Evidence(
            captures=lab.captures and self._cell.case.traffic != "unseen",
            hostport=recipe.hostport,
            server=commands.seen(SERVER) if commands.ended(SERVER) is not None else None,
            clients=clients if any(c.ended_s is not None for c in clients) else (),
            ranks=tuple(self._ranks()),
            wire=wire,
            nodes=Nodes(
                libraries=dict(prepared.libraries),
                own_libraries=prepared.twins.libraries.get(self._cell.settings.get("abi", ""), {}),
                prefixes=dict(prepared.prefixes),
                addresses={node.name: node.address for nodes in lab.clients for node in nodes},
                node_nonces=dict(prepared.node_nonces),
            ),
            times=Times(
                clocks_s=apart(self._captures),
                timed_out=timed_out,
                limit_s=limit_s,
                seconds=round(time.monotonic() - commands.began, 3),
                began=self._began,
            ),
            lab=LabTold(
                unseen=tuple(lab.unseen),
                leftovers=tuple(self._leftovers),
                network=self.network.seen,
                trouble=self.trouble,
            ),
            told_key=commands.telling_key(),
            look=self._look,
            fault=self._fault,
        )
        return Seen(
            evidence,
            recipe.nonce,
            self._captures,
            [started.line for started in commands.started],
            self._script(),
            lab.software,
            wire=happened,
            said=commands.said(),
            began=self._began,
        )

    def _script(self) -> str:
        recipe = self._recipe
        jobs = [each for each in self._commands.started if each.who.role in ("server", "client")]
        plan, access = json.dumps(recipe.plan()), self._prepared.lab.access
        return script(self._cell.id, access, jobs, folders=recipe.folders, plan=plan, hostport=recipe.hostport)

    def _ranks(self) -> list[RankSeen]:
        found = []
        for client, nodes in enumerate(self._prepared.lab.clients):
            for node in nodes:
                done = self._commands.ended(witness(node.name))
                stacks = self._look.stacks.get(node.name, {}) if self._look is not None else {}
                for rank in read_ranks(node.name, client, done.stdout if done else b""):
                    # The view from outside needs no help of the rank, and was taken earlier.
                    found.append(replace(rank, stack=stacks.get(rank.pid) or rank.stack))
        return found

    def _read_wire(self) -> tuple[Wire | None, Sequence[Event]]:
        port, lab, cell = self._recipe.hostport.rpartition(":")[2], self._prepared.lab, self._cell
        if not self._captures or not port.isdigit():
            return None, ()
        native = cell.settings.get("form") == "native"
        specified = cell.settings.get("version") == "0.0"
        demands = Demands(cell.case, cell.roster, self._recipe.nonce, native=native, specified=specified)
        looked_at = self._look.at if self._look is not None else None
        # Existing hosts may have jobs of other labs, too, and of other users.
        server = lab.server.address if lab.access.backend.startswith(ON_HOSTS) else ""
        wire, happened = examine(self._captures, demands, int(port), looked_at, self.network.hidden, server)
        return wire if lab.captures else None, happened  # what only some nodes saw is for the timeline
