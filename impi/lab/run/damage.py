"""The damage of a fault: does the act to the victim in a lab, undoes it, and says what was seen.

A process is hit on its own node by ``programs/strike.py``, a node by the engine, links by rules of
the kernel. Each of them proves what it did, and :meth:`Damage.seen` gathers the proof: a fault
without proof is an error of the lab, not of the job.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from impi.base.errors import LabError
from impi.lab.cases.faults import Fault
from impi.lab.evidence.gathered import FaultSeen
from impi.lab.nodes import Direction, Lab, LinkSettings, Node, both_ways, run_on
from impi.lab.run.cell_commands import SERVER, Commands, Who, impirun, witness
from impi.lab.run.phase_gate import network_of, node_program

_STRIKE: Final = (Path(__file__).parents[1] / "programs/strike.py").read_text("utf-8")
_DO_S: Final = 20.0
# A link of act ``slow``
_LATE: Final = LinkSettings(delay=0.2, jitter=0.05, rate=1_250_000.0)


class Damage:
    """The acts of a fault in a lab; :class:`.fault_driver.FaultDriver` says when they are due."""

    def __init__(self, fault: Fault, lab: Lab, commands: Commands) -> None:
        self._fault, self._lab, self._commands = fault, lab, commands
        self._client = fault.struck_client(len(lab.clients))
        self._told: dict[str, object] = {}
        self._at = self._thawed_at = 0.0
        self._frozen = self._killed = False

    # -- who

    @property
    def command(self) -> Who:
        """The command that is hit, or the one that the victim runs under."""
        return SERVER if self._fault.victim == "server" else impirun(self._client)

    @property
    def node(self) -> Node:
        """The node that is hit, or that the process runs on."""
        if self._fault.victim == "server":
            return self._lab.server

        return self._lab.clients[self._client][
            -1 if self._fault.whom.kind == "node" else 0
        ]

    @property
    def has_command(self) -> bool:
        """Whether the command is gone, or frozen, together with the victim."""
        # Other nodes of a client have ranks only: impirun runs on the first one.
        return (
            self._fault.whom.kind != "node" or len(self._lab.clients[self._client]) == 1
        )

    def directions(self) -> list[Direction]:
        groups = [[node.name for node in nodes] for nodes in self._lab.clients]
        if self._fault.victim == "clients":
            return [
                way
                for i, one in enumerate(groups)
                for other in groups[i + 1 :]
                for way in both_ways(one, other)
            ]

        others = [
            name
            for i, group in enumerate(groups)
            if i != self._client
            for name in group
        ]

        return both_ways(
            groups[self._client],
            [*others, "server"] if self._fault.victim == "link" else others,
        )

    # -- what is done

    def prepare(self) -> None:
        if self._fault.whom.kind == "links":
            network_of(self._lab).prepare(
                sorted({target for _, target in self.directions()})
            )

    def cause(self, ranks: Mapping[int, int]) -> None:
        """Do the act to the victim.

        Args:
            ranks: the process ids on the victim's node, by rank in the client.

        Raises:
            LabError: there is no such process, or the network cannot be changed.
        """

        act, kind = self._fault.what, self._fault.whom.kind
        if kind == "process":
            self._send(ranks)
            return

        network = network_of(self._lab)
        if kind == "node" and self._fault.act == "kill":
            self._killed = bool(network.kill(self.node.name))
            # The container is gone with its sshd: no command there can tell its end any more.
            self._lose()
        elif kind == "node":
            network.freeze(self.node.name)
        elif act.refuses:
            network.cut(self.directions(), act.refuses)
        else:
            network.set_links(dict.fromkeys(self.directions(), _LATE))

        self._at = time.time()

    def undo(self) -> None:
        """Let go on what was stopped; let packets pass that were dropped for a time."""
        act = self._fault.what
        # A cut that stays is undone with all of the network, at the end of the cell.
        if act.refuses == "drop" and act.harmless:
            network_of(self._lab).heal(self.directions(), "drop")
        elif not act.refuses and (act.freezes or act.harmless) and not self._thawed_at:
            self.thaw()

    def thaw(self) -> None:
        self._thawed_at = time.time()
        if self._fault.whom.kind == "node":
            self._frozen = network_of(self._lab).thaw(self.node.name)
        elif self._told:
            words = ("thaw", str(self._told["pid"]))
            done = run_on(
                self.node, node_program(self._lab, _STRIKE, *words), timeout_s=_DO_S
            )
            self._frozen = bool(json.loads(done.stdout or b"{}").get("still"))

    def has_refused(self) -> bool:
        return any(cut.refused for cut in network_of(self._lab).seen().cuts)

    @property
    def is_thawed(self) -> bool:
        return bool(self._thawed_at)

    def _send(self, ranks: Mapping[int, int]) -> None:
        pid, who = self._commands.running(self.command).pid, self._fault.victim
        if who in ("rank", "master"):
            pid = ranks[max(ranks) if who == "rank" else 0]

        role = who if who in ("starter", "mpiexec", "agent") else "self"
        # One impirun starts all clients: the client's own one is below it.
        shared = self._commands.is_shared(self.command) and who not in (
            "rank",
            "master",
        )
        words = (
            self._fault.what.signal,
            str(pid),
            role,
            *([str(self._client)] if shared else ()),
        )
        done = run_on(
            self.node, node_program(self._lab, _STRIKE, *words), timeout_s=_DO_S
        )

        self._told = json.loads(done.stdout or b"{}")
        if not self._told:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise LabError(
                f"{self.node.name}: there is no {who} to hit below process {pid} {said[-200:]}"
            )

        self._at = float(str(self._told["at"]))

    def _lose(self) -> None:
        """Count the commands of a killed node as over: their ends will never be heard of."""
        if self._killed:
            self._commands.lose(witness(self.node.name))
            if self.has_command:
                self._commands.lose(self.command)

    # -- evidence

    def seen(self, *, began: float, ended: float, times: int) -> FaultSeen:
        """Return what was done, and what shows that it happened.

        Args:
            began: when it was done last, by the monotonic clock; 0: it was not.
            ended: when it was ended; 0: it was not.
            times: how often it was done.
        """
        network = (
            self._lab.network.seen()
            if self._lab.network is not None and began
            else None
        )
        return FaultSeen(
            kind=self._fault.name,
            phase=self._fault.phase,
            began=bool(began),
            lasted_s=round(ended - began, 3) if ended else 0.0,
            victim=int(str(self._told.get("pid", 0))),
            what=str(self._told.get("what", "")),
            at=self._at,
            ended=bool(self._told.get("ended")) or self._killed,
            still=bool(self._told.get("still")),
            thawed_at=self._thawed_at,
            frozen=self._frozen,
            refused=sum(cut.refused for cut in network.cuts) if network else 0,
            times=times,
            # The link that held packets least proves least.
            late=min((link.mean for link in network.links if link.passed), default=0.0)
            if network
            else 0.0,
        )
