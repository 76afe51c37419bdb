"""A hit of the fault matrix: waits for its phase, does it, undoes it, and says what was seen.

:meth:`Strike.turn` is called again and again while the job runs. Each step that it takes gives the
job a new limit.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from impi.errors import LabError
from impi.testbed.cases.fault_matrix import HITS, holding_client, victim_client
from impi.testbed.evidence.evidence import FaultSeen
from impi.testbed.lab.interface import Lab, Node, RunningCommand, run_on
from impi.testbed.lab.lab_links import Direction, LinkSettings, Network, both_ways
from impi.testbed.lab.roster import Roster
from impi.testbed.run.phase_gate import PhaseGate, network_of, node_program

_STRIKE: Final = (Path(__file__).parents[1] / "programs/strike.py").read_text("utf-8")
_DO_S: Final = 20.0
_THAWED_S: Final = 10.0
"""What stood still must end in this time once it is thawed."""
_LATE: Final = LinkSettings(delay=0.2, jitter=0.05, rate=1_250_000.0)
"""A link of ``slow``."""
_SLOWED_S: Final = 20.0
"""More time for a job on such links: start-up has 16 labels in turn (IMPI 2.3.5), then 8 MiB go."""


class Strike:
    """One hit, ``ACT-VICTIM@PHASE``."""

    def __init__(
        self,
        value: str,
        lab: Lab,
        roster: Roster,
        folders: Mapping[str, str],
        commands: Mapping[str, RunningCommand],
        limits: tuple[float, float],
    ) -> None:
        """``folders``: the cell's, by node; ``limits``: to come to the phase, and to end well."""
        self.hit = HITS[value]
        self._lab, self._roster, self._commands = lab, roster, commands
        self._start_s, self._cell_s = limits
        self._gate = PhaseGate(self.hit.phase, lab, roster, folders)
        self._ranks: dict[int, int] = {}
        self._told: dict[str, object] = {}
        self._at = self._began = self._ended = self._thawed_at = 0.0
        self._frozen = self._killed = False

    # -- who

    @property
    def victim(self) -> int:
        """The client of the victim."""
        return victim_client(self._roster.nclients)

    @property
    def holds_back(self) -> int | None:
        """The client that is not started before the fault; None: all are."""
        return holding_client(self._roster.nclients) if self.hit.phase == "early" else None

    @property
    def began(self) -> bool:
        """Whether it has been done."""
        return bool(self._began)

    @property
    def struck(self) -> str:
        """The command that is hit itself, if it is one."""
        return {"server": "server", "client": f"client {self.victim}"}.get(self.hit.victim, "")

    @property
    def lost(self) -> set[str]:
        """Commands of a node that is gone: of their end nothing will be heard."""
        if not self._killed:
            return set()
        alone = len(self._lab.clients[self.victim]) == 1  # impirun is on the first node of its client
        return {f"witness {self._node.name}", *([f"client {self.victim}"] if alone else [])}

    @property
    def _beyond(self) -> set[str]:
        """Commands of which nobody expects that they end before the victim is thawed."""
        if not self.hit.what.freezes or not self.hit.whom.outlives:
            return set()
        alone = self.hit.victim != "node" or len(self._lab.clients[self.victim]) == 1
        return {self.struck or f"client {self.victim}"} if alone else set()

    @property
    def _started(self) -> list[Node]:
        return [node for i, nodes in enumerate(self._lab.clients) if i != self.holds_back for node in nodes]

    @property
    def _node(self) -> Node:
        """Where the process is that is hit."""
        if self.hit.victim == "server":
            return self._lab.server
        return self._lab.clients[self.victim][-1 if self.hit.victim == "node" else 0]

    # -- the run

    def begin(self) -> None:
        """Wait for the phase on every node; make ready what is to be done."""
        if self.hit.victim in ("link", "channel"):
            self._network.prepare(sorted({target for _, target in self._directions()}))
        self._gate.begin(self._started, self._start_s)

    def turn(self, over: Collection[str], start: Callable[[int], None]) -> float | None:
        """Take the next step; return seconds for what follows, or None if none was taken.

        ``over``: the commands that have ended; ``start`` starts a client.
        """
        if not self._began:
            return self._begin_it() if self._has_come() else None
        if self.hit.what.harmless:
            return self._end_it(start) if self._is_over() else None
        others = {name for name in self._commands if not name.startswith("witness")} - self._beyond
        if self._beyond and not self._thawed_at and others <= set(over):
            self._thaw()
            return _THAWED_S
        return None

    def _begin_it(self) -> float:
        act = self.hit.what
        self._do()
        self._began = time.monotonic()
        if not act.harmless and self.hit.whom.moves and self.hit.phase != "compute":
            self._open()  # those who hold the job run into it, too
        return act.limit_s or self._cell_s + act.lasts_s

    def _is_over(self) -> bool:
        """Whether what is harmless has lasted so long as it should, and was not ended yet."""
        return not self._ended and time.monotonic() > self._began + self.hit.what.lasts_s

    def _end_it(self, start: Callable[[int], None]) -> float:
        self.undo()
        if self.holds_back is not None:
            start(self.holds_back)
        self._open()
        slowed = self.hit.act == "slow" and self.hit.victim in ("link", "channel")
        return self._cell_s + (_SLOWED_S if slowed else 0.0)

    def _has_come(self) -> bool:
        """Whether all ranks that are awaited have come to the phase."""
        ranks = self._gate.ranks()
        if ranks is not None:
            self._ranks = ranks.get(self._node.name, {})
        return ranks is not None

    def undo(self) -> None:
        """End it, if it has begun and is not over."""
        if not self._began or self._ended:
            return
        self._ended = time.monotonic()
        if (self.hit.what.freezes or self.hit.act == "slow") and not self._thawed_at:
            self._thaw()
        if self.hit.act == "blink":
            self._network.heal(self._directions(), "drop")

    def stop(self) -> None:
        """End the programs that wait."""
        self._gate.stop()

    def seen(self) -> FaultSeen:
        """What has happened of it."""
        network = self._lab.network.seen() if self._lab.network is not None and self._began else None
        told = self._told
        return FaultSeen(
            kind=f"{self.hit.act}-{self.hit.victim}",
            phase=self.hit.phase,
            began=bool(self._began),
            lasted_s=round(self._ended - self._began, 3) if self._ended else 0.0,
            victim=int(str(told.get("pid", 0))),
            what=str(told.get("what", "")),
            at=self._at,
            ended=bool(told.get("ended")) or self._killed,
            still=bool(told.get("still")),
            thawed_at=self._thawed_at,
            frozen=self._frozen,
            refused=sum(cut.refused for cut in network.cuts) if network else 0,
            late=min((link.mean for link in network.links if link.passed), default=0.0) if network else 0.0,
        )

    # -- what it does

    def _do(self) -> None:
        act, victim = self.hit.act, self.hit.victim
        if victim == "node":
            do = self._network.kill if act == "kill" else self._network.freeze
            self._killed = bool(do(self._node.name))
        elif act in ("cut", "blink", "reset"):
            self._network.cut(self._directions(), "reset" if act == "reset" else "drop")
        elif victim in ("link", "channel"):
            self._network.set_links(dict.fromkeys(self._directions(), _LATE))
        else:
            self._send()
            return
        self._at = time.time()

    def _send(self) -> None:
        """Send a signal to a process."""
        pid, who = self._commands[self.struck or f"client {self.victim}"].pid, self.hit.victim
        if who in ("rank", "master"):
            pid = self._ranks[max(self._ranks) if who == "rank" else 0]
        role = who if who in ("starter", "mpiexec", "agent") else "self"
        words = (self.hit.what.signal, str(pid), role)
        done = run_on(self._node, node_program(self._lab, _STRIKE, *words), timeout_s=_DO_S)
        self._told = json.loads(done.stdout or b"{}")
        if not self._told:
            said = done.stderr.decode("utf-8", "replace").strip()
            raise LabError(f"{self._node.name}: there is no {who} to hit below process {pid} {said[-200:]}")
        self._at = float(str(self._told["at"]))

    def _thaw(self) -> None:
        """Let go on what stands still, and note whether it did until now."""
        self._thawed_at = time.time()
        if self.hit.victim == "node":
            self._frozen = self._network.thaw(self._node.name)
        elif self._told:
            words = ("thaw", str(self._told["pid"]))
            done = run_on(self._node, node_program(self._lab, _STRIKE, *words), timeout_s=_DO_S)
            self._frozen = bool(json.loads(done.stdout or b"{}").get("still"))

    @property
    def _network(self) -> Network:
        return network_of(self._lab)

    def _directions(self) -> list[Direction]:
        """All directions between nodes of the victim and those of others."""
        mine = [node.name for node in self._lab.clients[self.victim]]
        others = [node.name for i, nodes in enumerate(self._lab.clients) if i != self.victim for node in nodes]
        return both_ways(mine, [*others, "server"] if self.hit.victim == "link" else others)

    def _open(self) -> None:
        """Let the ranks go on that hold the job; a node that stands still cannot be told."""
        still = self._node.name if self.hit.victim == "node" and not self._ended else ""
        self._gate.open([node for nodes in self._lab.clients for node in nodes if node.name != still])
