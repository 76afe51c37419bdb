"""Runs many cells: labs are opened, reused, discarded after a non-pass and always closed; several at a time.

A thread is a worker with at most one lab. Two cells run beside each other only while their procs fit the cores: MPI
libraries spin while they wait, and a crowded machine turns seconds into minutes.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from impi.errors import ImpiError
from impi.testbed.cell import Cell
from impi.testbed.execute import Limits, Mutation, Prepared, Seen, prepare, run_cell
from impi.testbed.facts import Facts
from impi.testbed.runner import Backend, Lab
from impi.testbed.verdict import Verdict, judge

__all__ = ["Done", "Scheduler", "default_jobs", "judge_cell"]

_PROCS_PER_CORE: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A cell that is over."""

    cell: Cell
    verdict: Verdict
    seconds: float
    seen: Seen | None = None
    """None where it did not come to a run."""
    kept: bool = False
    """Whether its lab was left running for the user."""


def default_jobs() -> int:
    """How many labs to run beside each other: one a core, at most four."""
    return max(1, min(4, len(os.sched_getaffinity(0))))


def judge_cell(cell: Cell, seen: Seen) -> Verdict:
    """The verdict on a cell that has run."""
    return judge(Facts(case=cell.case, roster=cell.roster, nonce=seen.nonce, variant=cell.variant, seen=seen.evidence))


class _Bench:
    """The one lab of a worker."""

    def __init__(self, backend: Backend, run: str) -> None:
        self._backend, self._run = backend, run
        self.lab: Lab | None = None
        self._prepared: Prepared | None = None

    def ready(self, cell: Cell) -> Prepared:
        """The lab for this cell, opened if there is none; LabError if it cannot be."""
        if self._prepared is None:
            self.lab = self._backend.open(cell.vendors, cell.topology, run=self._run)
            self._prepared = prepare(self.lab, self._run)
        return self._prepared

    def discard(self, *, keep: bool) -> None:
        """Close it, unless the user wants to look into it."""
        if self.lab is not None and not keep:
            self.lab.close()
        self.lab = self._prepared = None


class Scheduler:
    """Runs cells; :meth:`run` returns when all are over or :attr:`stop` was set."""

    def __init__(
        self,
        backend: Backend,
        run: str,
        *,
        jobs: int = 1,
        limits: Limits | None = None,
        keep: bool = False,
        slots: int | None = None,
        mutation: Mutation | None = None,
    ) -> None:
        self._backend = backend
        self._run = run
        self._jobs = jobs
        self._limits = limits or Limits()
        self._keep = keep
        self._mutation = mutation
        self._lock = threading.Condition()
        self._groups: list[list[Cell]] = []
        # How many procs may run beside each other.
        self._slots = slots or _PROCS_PER_CORE * len(os.sched_getaffinity(0))
        self._busy = 0
        self._failure: BaseException | None = None
        self.stop = threading.Event()
        """Set it to end the run soon; what has not run stays out."""

    def run(self, cells: Sequence[Cell], began: Callable[[Cell], None], done: Callable[[Done], None]) -> None:
        """Run the cells. ``began`` and ``done`` are called from one thread at a time.

        Raises:
            BaseException: whatever ``began`` or ``done`` raised; all labs are closed by then.
        """
        groups: dict[tuple[tuple[str, ...], str], list[Cell]] = {}
        for cell in cells:
            groups.setdefault(cell.lab, []).append(cell)
        # The longest first, so that the last worker does not end long after the others.
        self._groups = sorted(groups.values(), key=lambda g: -len(g) * g[0].roster.size)
        workers = [
            threading.Thread(target=self._work, args=(began, done), name=f"worker {i}")
            for i in range(min(self._jobs, len(self._groups)))
        ]
        for worker in workers:
            worker.start()
        try:
            for worker in workers:
                while worker.is_alive():  # not a bare join: Ctrl-C must come through
                    worker.join(0.2)
        finally:
            if any(worker.is_alive() for worker in workers):
                self.stop.set()
                for worker in workers:
                    worker.join()
        if self._failure is not None:
            raise self._failure

    # -- a worker

    def _work(self, began: Callable[[Cell], None], done: Callable[[Done], None]) -> None:
        try:
            while (group := self._next_group()) is not None:
                self._run_group(group, began, done)
        except BaseException as error:
            with self._lock:
                self._failure = self._failure or error
            self.stop.set()
            with self._lock:
                self._lock.notify_all()

    def _next_group(self) -> list[Cell] | None:
        with self._lock:
            return self._groups.pop(0) if self._groups and not self.stop.is_set() else None

    def _run_group(self, group: list[Cell], began: Callable[[Cell], None], done: Callable[[Done], None]) -> None:
        bench = _Bench(self._backend, self._run)
        try:
            for cell in group:
                if not self._take(cell.roster.size):
                    return
                start = time.monotonic()
                try:
                    with self._lock:
                        began(cell)
                    verdict, seen = self._run_cell(bench, cell)
                finally:
                    self._give(cell.roster.size)
                if self.stop.is_set() and verdict.outcome != "pass":
                    return  # interrupted: no verdict on half a cell
                kept = False
                if verdict.outcome != "pass":
                    kept = self._keep and bench.lab is not None
                    bench.discard(keep=kept)
                result = Done(cell=cell, verdict=verdict, seconds=time.monotonic() - start, seen=seen, kept=kept)
                with self._lock:
                    done(result)
        finally:
            bench.discard(keep=False)

    def _run_cell(self, bench: _Bench, cell: Cell) -> tuple[Verdict, Seen | None]:
        try:
            prepared = bench.ready(cell)
        except ImpiError as error:
            return Verdict(outcome="error", phase="up", blame="lab", reason=str(error)), None
        seen = run_cell(prepared, cell, self._limits, self.stop, self._mutation)
        return judge_cell(cell, seen), seen

    def _take(self, procs: int) -> bool:
        """Wait until so many procs fit; one cell always may."""
        with self._lock:
            while self._busy and self._busy + procs > self._slots and not self.stop.is_set():
                self._lock.wait(0.2)
            if self.stop.is_set():
                return False
            self._busy += procs
            return True

    def _give(self, procs: int) -> None:
        with self._lock:
            self._busy -= procs
            self._lock.notify_all()
