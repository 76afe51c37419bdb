"""The fault of a cell: waits for its phase, causes it, ends it, and lets the ranks go on.

:class:`.phase_gate.PhaseGate` tells when all ranks have come to the phase: no sleep decides when a
fault comes. :meth:`FaultDriver.turn` is called again and again while the job runs, and takes one
step when it is due. :class:`.damage.Damage` knows what is done; the driver knows when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import Final

from impi.lab.cases.faults import Fault
from impi.lab.evidence.gathered import FaultSeen
from impi.lab.nodes import Lab, Roster
from impi.lab.run.cell_commands import Commands, Who
from impi.lab.run.damage import Damage
from impi.lab.run.phase_gate import PhaseGate

# Once it is thawed, a frozen server or impirun must end in this time
_THAWED_S: Final = 10.0
# More time for a job on slow links: start-up has 16 labels in turn (IMPI 2.3.5), then 8 MiB go.
_SLOWED_S: Final = 20.0
_LOOK_EACH_S: Final = 0.5


class FaultDriver:
    """One fault, from the wait for its phase to its end.

    Args:
        fault: what is to be done, to whom, and at which phase.
        lab: where the job runs.
        roster: its ranks.
        folders: the cell's folder on each node of a client.
        commands: those of the cell.
        limits: seconds to come to the phase, and for a job to end well afterwards.
    """

    def __init__(
        self,
        fault: Fault,
        lab: Lab,
        roster: Roster,
        folders: Mapping[str, str],
        commands: Commands,
        limits: tuple[float, float],
    ) -> None:
        self.fault = fault
        # The client that is not started before the fault; None: all are started.
        self.holds_back = fault.held_client(roster.nclients)
        self._lab, self._commands = lab, commands
        self._start_s, self._cell_s = limits
        self._gate = PhaseGate(fault.phase, lab, roster, folders)
        self._damage = Damage(fault, lab, commands)
        self._began = self._ended = self._look_at = 0.0
        self._times = 0

    @property
    def began(self) -> bool:
        return bool(self._began)

    def begin(self) -> None:
        """Wait for the phase on every node, without blocking; make ready what takes time."""
        # The first cut of a lab once took as long as its sidecars need to start.
        self._damage.prepare()
        groups = [
            nodes
            for client, nodes in enumerate(self._lab.clients)
            if client != self.holds_back
        ]
        self._gate.begin([node for nodes in groups for node in nodes], self._start_s)

    def turn(self, over: Collection[Who], start: Callable[[int], None]) -> float | None:
        """Take the next step, if it is due.

        Args:
            over: the commands of the job that have ended.
            start: starts the client that was held back.

        Returns:
            Seconds for what follows, where the fault decides that; None: no step was taken.
        """

        act = self.fault.what
        if not self._began:
            ranks = self._gate.ranks()
            return (
                None
                if ranks is None
                else self._begin_it(ranks.get(self._damage.node.name, {}))
            )

        if not act.harmless:
            return self._thaw_last(over)

        if not self._ended:
            return self._end_it(start) if self._is_over() else None

        if act.again_s and time.monotonic() > self._ended + act.again_s:
            self._cause({})

        return None

    def _begin_it(self, ranks: Mapping[int, int]) -> float:
        fault, act = self.fault, self.fault.what
        self._cause(ranks)

        # Whoever holds the job runs into the fault, too. If ranks could end well without
        # the victim, or must go on unharmed, they hold on: else the job would be over
        # before it had to show anything.
        runs_into_it = (
            fault.whom.moves and fault.phase != "compute" and not act.harmless
        )
        if runs_into_it or not fault.in_matrix:
            self._open()

        return act.limit_s or self._cell_s + act.lasts_s

    def _cause(self, ranks: Mapping[int, int]) -> None:
        self._damage.cause(ranks)
        self._began, self._ended = time.monotonic(), 0.0
        self._times += 1

    def _is_over(self) -> bool:
        act, now = self.fault.what, time.monotonic()
        # Refused packets are counted by the kernels of all nodes: not to be asked every turn.
        if now < max(self._began + act.lasts_s, self._look_at):
            return False

        self._look_at = now + _LOOK_EACH_S

        return not act.until_refused or self._damage.has_refused()

    def _end_it(self, start: Callable[[int], None]) -> float:
        self.undo()
        if self.holds_back is not None:
            start(self.holds_back)

        self._open()
        # the lab leaves such links slow to the end of the cell
        slowed = self.fault.whom.kind == "links" and not self.fault.what.refuses

        return self._cell_s + (_SLOWED_S if slowed else 0.0)

    def _thaw_last(self, over: Collection[Who]) -> float | None:
        """Thaw a victim that nothing above it can end, once all others have ended without it."""

        freed = (
            self.fault.what.freezes
            and self.fault.whom.outlives
            and self._damage.has_command
        )
        # A command on another node than the frozen one still runs: it is judged like all others.
        if not freed or self._damage.is_thawed:
            return None

        if not set(over) >= set(self._commands.of("server", "client")) - {
            self._damage.command
        }:
            return None

        self._damage.thaw()

        return _THAWED_S

    def _open(self) -> None:
        """Let the ranks that hold the job go on; a node that is frozen cannot be told."""
        still = (
            self._damage.node
            if self.fault.whom.kind == "node" and not self._ended
            else None
        )
        self._gate.open(
            [node for nodes in self._lab.clients for node in nodes if node is not still]
        )

    def undo(self) -> None:
        if self._began and not self._ended:
            # Noted once the nodes have done it, which takes seconds on a busy machine: the next cut
            # counts from here.
            try:
                self._damage.undo()
            finally:
                self._ended = time.monotonic()

    def stop(self) -> None:
        self._gate.stop()

    def seen(self) -> FaultSeen:
        return self._damage.seen(
            began=self._began, ended=self._ended, times=self._times
        )
