"""Runs many cells: labs are opened, reused, discarded after a non-pass and always closed.

:class:`Scheduler` groups cells by lab (vendors and topology) and gives the groups, longest first,
to worker threads. A worker without a group takes half of the longest one that is under way. A
worker has at most one lab (``_Bench``), runs the group's cells in it one after another with
:func:`.execute.run_cell`, and judges each attempt. A cell may have several attempts: until one
passes, or a fixed number; :func:`combine` makes one verdict of them. ``began`` and ``done`` report
to the caller (``impilab run``), which writes results and shows progress.

Invariants: two cells run at once only if their procs fit the cores, because MPI libraries spin
while they wait; callbacks come from one thread at a time; a lab with a non-pass is never used
again; every lab is closed or given to the user, also after Ctrl-C. A cell cut off by ``stop`` has
no result.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from impi.errors import ImpiError
from impi.testbed.judge.expectations import Row
from impi.testbed.judge.verdict import Verdict, judge
from impi.testbed.lab.interface import Backend, Lab, Terms
from impi.testbed.lab.parties import is_remote
from impi.testbed.plan.cell import Cell
from impi.testbed.run.execute import Limits, Mutation, Seen, run_cell
from impi.testbed.run.prepared_lab import Prepared, prepare
from impi.testbed.run.remote_party import Invitations

_PROCS_PER_CORE: Final = 6
_MOST_TIMEOUTS: Final = 3
"""A lab whose cells time out so often is not worth the wait for the rest of them."""
_WORTH_A_LAB: Final = 8
"""For fewer cells no further lab of the same kind is opened."""
_MOST_KEPT: Final = 10
"""Failed attempts whose evidence is kept; captures are large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of a cell."""

    verdict: Verdict
    seconds: float
    seen: Seen | None = None
    """None where it did not come to a run, or where another attempt tells more."""
    lab: str = ""
    """The lab that it ran in; those before it in the same lab are its history."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A cell that is over."""

    cell: Cell
    verdict: Verdict
    attempts: tuple[Attempt, ...] = ()
    """In their order; none where it was not even tried."""
    kept: bool = False
    """Whether its lab was left running for the user."""
    row: Row | None = None
    """The row of the expectations that explains its verdict, or that did not expect a pass."""

    @property
    def seconds(self) -> float:
        """Seconds of all its attempts."""
        return sum(attempt.seconds for attempt in self.attempts)

    @property
    def deciding(self) -> int:
        """Index of the attempt that the verdict is about."""
        return _deciding(self.attempts)

    @property
    def seen(self) -> Seen | None:
        """The evidence of the deciding attempt."""
        return self.attempts[self.deciding].seen if self.attempts else None

    def without_evidence(self) -> Done:
        """Return the same without what was seen, which is in files by then."""
        return replace(self, attempts=tuple(replace(attempt, seen=None) for attempt in self.attempts))

    @property
    def result(self) -> str:
        """The outcome compared with the expectations: adds ``xfail`` and ``xpass``."""
        if self.row is None:
            return self.verdict.outcome
        return "xpass" if self.verdict.outcome == "pass" else "xfail"

    @property
    def counts_as(self) -> str:
        """The result for the exit code: flaky only by the lab's faults counts as ``error``."""
        own = all(a.verdict.outcome in ("pass", "error") for a in self.attempts)
        return "error" if self.result == "flaky" and own else self.result


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistence:
    """Number of attempts at a cell."""

    retries: int = 0
    """So many times more until it passes."""
    repeat: int = 1
    """A fixed number of attempts."""
    until_fail: bool = False
    """... but nothing any more once a cell has not passed."""

    def goes_on(self, attempts: Sequence[Attempt], *, satisfied: bool) -> bool:
        """Whether another attempt follows; ``satisfied``: the last one passed, or as expected."""
        if sum(a.verdict.outcome == "timeout" for a in attempts) >= _MOST_TIMEOUTS:
            return False
        if self.repeat > 1:
            return len(attempts) < self.repeat and (satisfied or not self.until_fail)
        return not satisfied and len(attempts) <= self.retries


def _deciding(attempts: Sequence[Attempt]) -> int:
    """Return the first attempt with the worst outcome; the last one if all passed."""
    for outcome in ("fail", "timeout", "error"):
        for i, attempt in enumerate(attempts):
            if attempt.verdict.outcome == outcome:
                return i
    return len(attempts) - 1


def combine(attempts: Sequence[Attempt]) -> Verdict:
    """The verdict on a cell by its attempts: ``flaky`` where some passed and some did not."""
    verdict = attempts[_deciding(attempts)].verdict
    bad = sum(a.verdict.outcome != "pass" for a in attempts)
    if not 0 < bad < len(attempts):
        return verdict
    reason = f"{bad} of {len(attempts)} attempts did not pass; {verdict.outcome}: {verdict.reason}"
    return replace(verdict, outcome="flaky", reason=reason)


def default_jobs() -> int:
    """Return the default number of simultaneous labs: one a core, at most four."""
    return max(1, min(4, len(os.sched_getaffinity(0))))


def judge_cell(cell: Cell, seen: Seen) -> Verdict:
    """The verdict on a cell that has run."""
    return judge(seen.facts(cell))


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """Treatment of labs."""

    terms: Terms = field(default_factory=Terms)
    isolated: bool = False
    """Whether every attempt gets a fresh one."""
    keep: Callable[[Cell, Verdict, Lab], bool] | None = None
    """Called after each attempt: whether the lab becomes the user's, and a new one is opened."""
    open: Callable[[Cell], Lab | None] | None = None
    """A lab that is there already; None, or None from it: the backend opens one."""
    invitations: Invitations | None = None
    """Where remote parties are told what they have to know."""


class _Bench:
    """The one lab of a worker."""

    def __init__(self, backend: Backend, run: str, care: Care) -> None:
        self._backend, self._run, self._care = backend, run, care
        self.lab: Lab | None = None
        self._prepared: Prepared | None = None
        self._until = 0.0

    def ready(self, cell: Cell) -> Prepared:
        """The lab for this cell, opened if there is none; LabError if it cannot be."""
        if self.lab is not None and time.monotonic() > self._until:
            self.discard()  # before its nodes end by themselves
        if self._prepared is None:
            terms = replace(self._care.terms, six=cell.six, compiled=cell.compiled)
            self._until = time.monotonic() + terms.ttl_s / 2
            there = self._care.open(cell) if self._care.open is not None else None
            self.lab = there or self._backend.open(cell.vendors, cell.topology, run=self._run, terms=terms)
            self._prepared = prepare(self.lab, self._run, self._care.invitations)
        return self._prepared

    def after(self, cell: Cell, verdict: Verdict) -> bool:
        """Give the lab to the user or close it, unless reused; True if it was given away."""
        if self.lab is None:
            return False
        if self._care.keep is not None and self._care.keep(cell, verdict, self.lab):
            self.lab = self._prepared = None
            return True
        if verdict.outcome != "pass" or self._care.isolated or cell.breaks_lab:
            self.discard()
        return False

    def discard(self) -> None:
        """Close it."""
        if self.lab is not None:
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
        care: Care | None = None,
        slots: int | None = None,
        mutation: Mutation | None = None,
        persistence: Persistence | None = None,
        expected: Callable[[Cell, Verdict], bool] = lambda _cell, _verdict: False,
        cut_off: Callable[[Attempt, Cell], None] = lambda _attempt, _cell: None,
    ) -> None:
        self._backend = backend
        self._run = run
        self._jobs = jobs
        self._limits = limits or Limits()
        self._care = care or Care()
        self._mutation = mutation
        self._persistence = persistence or Persistence()
        # Whether the cell was expected to end so: then there is no point in another attempt.
        self._expected = expected
        # Told, one at a time, of a cell that was under way when the run was interrupted.
        self._cut_off = cut_off
        self._lock = threading.Condition()
        self._groups: list[list[Cell]] = []
        # Those that a worker has begun: what is left of them.
        self._begun: list[list[Cell]] = []
        # How many procs may run beside each other.
        self._slots = slots or _PROCS_PER_CORE * len(os.sched_getaffinity(0))
        self._busy = 0
        self._failure: BaseException | None = None
        self.stop = threading.Event()
        """Set it to end the run soon: new cells stay out, running ones are looked at."""
        self.hurry = threading.Event()
        """Set it, too, to end the run at once: nothing more is looked at."""
        self._enough = False

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
            for i in range(min(self._jobs, len(cells)))
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
        """Return a group that nobody has begun, or half of the longest one; None: there is none."""
        with self._lock:
            if self._ending():
                return None
            group = self._groups.pop(0) if self._groups else self._half()
            if group:
                self._begun.append(group)
            return group or None

    def _half(self) -> list[Cell]:
        """Take half of the group of which most is left; nothing where that is not worth a lab."""
        # A lab that is there, or that remote parties come to, is the only one of its kind.
        if self._care.open is not None:
            return []
        shared = (group for group in self._begun if group and not any(map(is_remote, group[0].vendors)))
        longest = max(shared, key=len, default=[])
        half = longest[(len(longest) + 1) // 2 :]
        if len(half) < _WORTH_A_LAB:
            return []
        del longest[-len(half) :]
        return half

    def _next_cell(self, group: list[Cell]) -> Cell | None:
        with self._lock:
            return group.pop(0) if group else None

    def _ending(self) -> bool:
        return self._enough or self.stop.is_set()

    def _run_group(self, group: list[Cell], began: Callable[[Cell], None], done: Callable[[Done], None]) -> None:
        bench = _Bench(self._backend, self._run, self._care)
        timeouts: list[Done] = []
        try:
            while (cell := self._next_cell(group)) is not None:
                result: Done | None
                if len(timeouts) >= _MOST_TIMEOUTS:
                    result = _given_up(cell, timeouts[-1].verdict)
                else:
                    result = self._run_cell(bench, cell, began)
                if result is None:
                    return
                if result.verdict.outcome == "timeout" and result.attempts and not self._satisfied(cell, result):
                    timeouts.append(result)
                with self._lock:
                    done(result)
        finally:
            bench.discard()

    def _run_cell(self, bench: _Bench, cell: Cell, began: Callable[[Cell], None]) -> Done | None:
        """All attempts; None if the run was ended before they said anything."""
        attempts: list[Attempt] = []
        kept, goes_on = False, True
        while goes_on:
            attempt = self._attempt(bench, cell, began)
            if attempt is None:
                # Interrupted: half a cell has no verdict, but a failed attempt counts.
                if all(a.verdict.outcome == "pass" for a in attempts):
                    return None
                break
            if attempts and attempts[-1].verdict.outcome == "pass":
                attempts[-1] = replace(attempts[-1], seen=None)  # the last one that passed stands for all
            if sum(a.seen is not None for a in attempts) >= _MOST_KEPT:
                attempt = replace(attempt, seen=None)
            attempts.append(attempt)
            satisfied = self._satisfied(cell, attempt)
            kept = bench.after(cell, attempt.verdict)
            if attempt.verdict.outcome != "pass":
                self._enough = self._enough or (self._persistence.until_fail and not satisfied)
            goes_on = self._persistence.goes_on(attempts, satisfied=satisfied)
        return Done(cell=cell, verdict=combine(attempts), attempts=tuple(attempts), kept=kept)

    def _satisfied(self, cell: Cell, what: Attempt | Done) -> bool:
        return what.verdict.outcome == "pass" or self._expected(cell, what.verdict)

    def _attempt(self, bench: _Bench, cell: Cell, began: Callable[[Cell], None]) -> Attempt | None:
        """Make one attempt as soon as its procs fit; None if the run was ended."""
        if not self._take(cell.roster.size):
            return None
        start = time.monotonic()
        try:
            with self._lock:
                began(cell)
            verdict, seen = self._run_once(bench, cell)
        finally:
            self._give(cell.roster.size)
        lab = bench.lab.access.lab if bench.lab is not None else ""
        attempt = Attempt(verdict=verdict, seconds=time.monotonic() - start, seen=seen, lab=lab)
        if self.stop.is_set() and verdict.outcome != "pass":
            if not self.hurry.is_set():
                with self._lock:
                    self._cut_off(attempt, cell)
            return None
        return attempt

    def _run_once(self, bench: _Bench, cell: Cell) -> tuple[Verdict, Seen | None]:
        try:
            prepared = bench.ready(cell)
        except ImpiError as error:
            return Verdict(outcome="error", phase="up", blame="lab", reason=str(error)), None
        # A cell of more procs than fit the cores gets as much more time.
        limits = self._limits.scaled(max(1.0, cell.roster.size / self._slots))
        seen = run_cell(prepared, cell, limits, self.stop, self._mutation, self.hurry)
        return judge_cell(cell, seen), seen

    def _take(self, procs: int) -> bool:
        """Wait until so many procs fit; one cell always may."""
        with self._lock:
            while self._busy and self._busy + procs > self._slots and not self._ending():
                self._lock.wait(0.2)
            if self._ending():
                return False
            self._busy += procs
            return True

    def _give(self, procs: int) -> None:
        with self._lock:
            self._busy -= procs
            self._lock.notify_all()


def _given_up(cell: Cell, last: Verdict) -> Done:
    """The verdict on a cell of a lab in which nothing ends."""
    reason = f"pair broken: {_MOST_TIMEOUTS} cells of {cell.parties} on {cell.topology} timed out, so it was not tried"
    return Done(cell=cell, verdict=Verdict(outcome="skipped", phase=last.phase, reason=reason))
