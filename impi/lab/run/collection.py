"""Collects the evidence of one cell: looks, captures and leftovers, and then all as values.

How it works: :class:`Collection` has one method for each step that looks at the lab, in the order
in which a cell needs them. ``guard`` performs a step and keeps the first fault of the lab as
*trouble*: what was collected before still explains the cell, but no party can be blamed any more.
``seen`` then makes values of everything. From there on no code asks the lab again, so a verdict can
be computed anywhere, and a second time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event as Flag
from typing import Final

from impi.base.errors import ImpiError
from impi.base.remote.supervised import Line
from impi.lab.dissect import Event
from impi.lab.evidence.demands import Demands
from impi.lab.evidence.gathered import (
    Evidence,
    FaultSeen,
    LabTold,
    Look,
    Nodes,
    RankSeen,
    Sealing,
    Times,
    Wire,
)
from impi.lab.evidence.process_snapshot import take_look
from impi.lab.evidence.traffic import apart, examine
from impi.lab.evidence.witness_reports import read_ranks
from impi.lab.judge.cell_facts import Facts
from impi.lab.nodes.interface import ON_HOSTS, Capture
from impi.lab.nodes.job_commands import library_cache
from impi.lab.nodes.ways import kind_of
from impi.lab.plan.cell import Cell
from impi.lab.run.byhand import script
from impi.lab.run.cell_commands import SERVER, Commands, impirun, witness
from impi.lab.run.cell_network import CellNetwork
from impi.lab.run.fault_driver import FaultDriver
from impi.lab.run.prepared_lab import Prepared
from impi.lab.run.recipe import WORK, Recipe

_NOT_BY_HAND: Final = """\
#!/bin/sh
# {cell} runs a compiled program of the user's, which no script can bring along.
echo "repeat it by the line of impilab repro" >&2
exit 1
"""


@dataclass(slots=True)
class Seen:
    """The evidence of a cell, and the files that belong to it."""

    evidence: Evidence
    nonce: str
    captures: list[Capture] = field(default_factory=list)
    command_lines: list[str] = field(default_factory=list)
    script: str = ""  # the cell as a script (:mod:`.byhand`)
    # Image ids and versions in the cell's lab
    software: Mapping[str, str] = field(default_factory=dict)
    wire: Sequence[Event] = ()  # all events in the captures
    # The lines that each command printed (``server``, ``client 1``).
    said: Mapping[str, tuple[Line, ...]] = field(default_factory=dict)
    # When it was begun (seconds since the epoch, by the orchestrator's clock)
    began: float = 0.0
    # The file that a user's program has written: its node, its octets
    output: tuple[str, bytes] | None = None

    def facts(self, cell: Cell) -> Facts:
        evidence = self.evidence
        return Facts(
            case=cell.case,
            roster=cell.roster,
            nonce=self.nonce,
            variant=cell.variant,
            seen=evidence,
        )


class Collection:
    """The evidence of one attempt at a cell. A fault of the lab becomes ``trouble`` in it.

    Args:
        prepared: the lab where the cell runs.
        cell: what runs.
        recipe: how each command is started.
        commands: those that were.
        hurry: once it is set, nothing more is collected, because its setter closes the lab.
    """

    def __init__(
        self,
        prepared: Prepared,
        cell: Cell,
        recipe: Recipe,
        commands: Commands,
        hurry: Flag,
    ) -> None:
        self._prepared, self._cell, self._recipe, self._commands = (
            prepared,
            cell,
            recipe,
            commands,
        )
        self._hurry = hurry
        self._began = time.time()
        self.trouble = ""  # the lab's first fault, in one sentence; empty: none
        self.network = CellNetwork(prepared.lab)
        self._capturing = False
        self._captures: list[Capture] = []
        self._look: Look | None = None
        self._fault: FaultSeen | None = None
        self._leftovers: list[str] = []
        self._output: tuple[str, bytes] | None = None

    def guard(self, action: Callable[[], None]) -> None:
        """Do a step, unless the run ends at once; keep the lab's fault if the step fails by one."""
        try:
            if not self._hurry.is_set():
                action()
        except ImpiError as error:
            self.trouble = self.trouble or str(error)

    # -- steps, in their order

    def begin_capture(self) -> None:
        """Begin to capture, if the case wants captures."""
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

    def fetch_output(self) -> None:
        """Fetch the file that a user's program has to write, from the first node that has it."""

        own = self._cell.case.own
        if own is None or not own.conditions.output:
            return

        folders = self._recipe.folders
        for node in (node for nodes in self._prepared.lab.clients for node in nodes):
            # MPI does not say which rank writes a file. Most programs let rank 0, on the first
            # node.
            octets = node.read(f"{folders[node.name]}/{WORK}/{own.conditions.output}")
            if octets is not None:
                self._output = node.name, octets
                return

    def sweep(self) -> None:
        files = self._prepared.files
        self._leftovers += self._prepared.lab.residue(files)
        files.update(left for left in self._leftovers if ": file " in left)

    # -- all of it as values

    def seen(self, *, timed_out: bool, limit_s: float, waited_s: float = 0.0) -> Seen:
        """Return the evidence.

        Args:
            timed_out: whether the cell came to the end of its time.
            limit_s: the limit that it was under when it ended.
            waited_s: how long that was by the clock: a busy machine stretches it.
        """

        prepared, lab, commands, recipe = (
            self._prepared,
            self._prepared.lab,
            self._commands,
            self._recipe,
        )
        wire, happened = self._read_wire()
        clients = tuple(commands.seen(impirun(i)) for i in range(len(lab.clients)))
        evidence = Evidence(
            captures=lab.captures and self._cell.case.traffic != "unseen",
            hostport=recipe.hostport,
            server=commands.seen(SERVER)
            if commands.ended(SERVER) is not None
            else None,
            clients=clients if any(c.ended_s is not None for c in clients) else (),
            ranks=tuple(self._ranks()),
            wire=wire,
            nodes=Nodes(
                libraries=dict(prepared.libraries),
                own_libraries=self._own_libraries(),
                prefixes=dict(prepared.prefixes),
                addresses={
                    node.name: node.address for nodes in lab.clients for node in nodes
                },
                node_nonces=dict(prepared.node_nonces),
            ),
            times=Times(
                clocks_s=apart(self._captures),
                timed_out=timed_out,
                limit_s=limit_s,
                waited_s=round(waited_s, 1),
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
            output=self._output,
        )

    def _own_libraries(self) -> dict[str, str]:
        """By node, where impi's libmpi for compiled programs is."""
        prepared = self._prepared
        if not self._cell.case.mute:
            return prepared.twins.libraries.get(kind_of(self._cell.settings), {})

        return {
            name: f"{library_cache(prepared.lab, name)}/" for name in prepared.roots
        }

    def _script(self) -> str:
        if self._cell.case.mute:
            return _NOT_BY_HAND.format(cell=self._cell.id)

        recipe = self._recipe
        jobs = [
            each
            for each in self._commands.started
            if each.who.role in ("server", "client")
        ]
        plan, access = json.dumps(recipe.plan()), self._prepared.lab.access

        return script(
            self._cell.id,
            access,
            jobs,
            folders=recipe.folders,
            plan=plan,
            hostport=recipe.hostport,
        )

    def _ranks(self) -> list[RankSeen]:
        found = []
        for client, nodes in enumerate(self._prepared.lab.clients):
            for node in nodes:
                done = self._commands.ended(witness(node.name))
                stacks = (
                    self._look.stacks.get(node.name, {})
                    if self._look is not None
                    else {}
                )

                mute = (
                    self._cell.roster.of_client(client) if self._cell.case.mute else ()
                )
                for rank in read_ranks(
                    node.name, client, done.stdout if done else b"", mute
                ):
                    # The view from outside needs no help of the rank, and was taken earlier.
                    found.append(
                        replace(rank, stack=stacks.get(rank.pid) or rank.stack)
                    )

        return found

    def _sealing(self) -> Sealing | None:
        """Return what must be in TLS; None: nothing."""
        if self._cell.settings.get("auth") != "tls":
            return None

        lab = self._prepared.lab
        nodes = [lab.server, *(node for nodes in lab.clients for node in nodes)]

        return Sealing(tuple(node.address for node in nodes), str(self._recipe.key))

    def _read_wire(self) -> tuple[Wire | None, Sequence[Event]]:
        port, lab, cell = (
            self._recipe.hostport.rpartition(":")[2],
            self._prepared.lab,
            self._cell,
        )
        if not self._captures or not port.isdigit():
            return None, ()

        native = cell.settings.get("form") == "native"
        specified = cell.settings.get("version") == "0.0"
        demands = Demands(
            cell.case,
            cell.roster,
            self._recipe.nonce,
            native=native,
            specified=specified,
        )
        looked_at = self._look.at if self._look is not None else None
        # Existing hosts may have jobs of other labs, too, and of other users.
        server = lab.server.address if lab.access.backend.startswith(ON_HOSTS) else ""
        wire, happened = examine(
            self._captures,
            demands,
            int(port),
            looked_at,
            self.network.hidden,
            server,
            self._sealing(),
        )

        # captures of some nodes only are for the timeline
        return wire if lab.captures else None, happened
