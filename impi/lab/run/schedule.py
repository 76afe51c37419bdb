"""Runs many cells: labs are opened, reused, discarded after a non-pass and always closed.

:class:`Scheduler` groups cells by the lab that they share (:mod:`impi.lab.plan.lab_sharing`) and
gives the groups, longest first, to worker threads. A worker without a group takes half of the
longest one that is under way. There is one worker more than cells may run at once: it opens a lab
while the others' cells run. A worker has at most one lab (``_Bench``), which it keeps for a further
group of the same kind. It runs the group's cells in it one after another with
:func:`.execute.run_cell`, and judges each attempt. A cell may have several attempts: a fixed
number, or up to the first that passes. :func:`combine` makes one verdict of them. ``began`` and
``done`` report to the caller (``impilab run``), which writes results and shows progress.

Invariants: at most ``jobs`` cells run at once, and two only if their procs fit the cores, because
MPI libraries spin while they wait; callbacks come from one thread at a time; a lab with a non-pass
is never used again; every lab is closed or given to the user, also after Ctrl-C. A cell cut off by
``stop`` has no result.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from impi.base.errors import ImpiError
from impi.lab.cases.own import OwnProgram, difference
from impi.lab.evidence.gathered import OutputSeen
from impi.lab.judge.expectations import Row
from impi.lab.judge.verdict import Verdict, judge
from impi.lab.nodes import Backend, Lab, Terms, Topology, is_remote
from impi.lab.nodes.lab_part import LabPart, SharedLab
from impi.lab.plan.cell import Cell
from impi.lab.plan.lab_sharing import Place, share
from impi.lab.run.collection import Seen
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import Prepared, prepare
from impi.lab.run.recipe import Mutation
from impi.lab.run.remote_party import Invitations

_PROCS_PER_CORE: Final = 6
# a pair of vendors whose cells time out this often is not tried any further: a
# hang costs its whole limit
_MOST_TIMEOUTS: Final = 3
# Opening another lab of the same kind takes as long as several cells
_WORTH_A_LAB: Final = 8
_LOOK_S: Final = 0.2
# failed attempts whose evidence is kept: 560 cells with captures once held 10 GB of memory
_MOST_KEPT: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One attempt at a cell: its verdict, and what was seen."""

    verdict: Verdict
    seconds: float
    # None if it did not come to a run, or if another attempt tells more
    seen: Seen | None = None
    lab: str = ""  # the lab that it ran in; earlier attempts there are its history


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A cell that is over: its verdict, and all attempts at it."""

    cell: Cell
    verdict: Verdict
    attempts: tuple[Attempt, ...] = ()  # in their order; none: it was not even tried
    kept: bool = False  # whether its lab was left running for the user
    # The row of the expectations that explains its verdict, or that did not expect a pass
    row: Row | None = None

    @property
    def seconds(self) -> float:
        return sum(attempt.seconds for attempt in self.attempts)

    @property
    def deciding(self) -> int:
        return _deciding_attempt(self.attempts)

    @property
    def seen(self) -> Seen | None:
        return self.attempts[self.deciding].seen if self.attempts else None

    def without_evidence(self) -> Done:
        return replace(
            self,
            attempts=tuple(replace(attempt, seen=None) for attempt in self.attempts),
        )

    @property
    def result(self) -> str:
        """The outcome compared with the expectations: adds ``xfail`` and ``xpass``."""
        if self.row is None:
            return self.verdict.outcome

        return "xpass" if self.verdict.outcome == "pass" else "xfail"

    @property
    def counts_as(self) -> str:
        """The result for the exit code: flaky by the lab's own errors alone counts as ``error``."""
        own = all(a.verdict.outcome in ("pass", "error") for a in self.attempts)
        return "error" if self.result == "flaky" and own else self.result


@dataclass(frozen=True, slots=True, kw_only=True)
class Persistence:
    """Number of attempts at a cell."""

    retries: int = 0  # further attempts until one passes
    repeat: int = 1  # a fixed number of attempts
    # Ends the whole run with the first cell that does not pass
    until_fail: bool = False

    def goes_on(self, attempts: Sequence[Attempt], *, satisfied: bool) -> bool:
        """Whether another attempt follows; ``satisfied``: the last one passed, or as expected."""
        if sum(a.verdict.outcome == "timeout" for a in attempts) >= _MOST_TIMEOUTS:
            return False

        if self.repeat > 1:
            return len(attempts) < self.repeat and (satisfied or not self.until_fail)

        return not satisfied and len(attempts) <= self.retries


def _deciding_attempt(attempts: Sequence[Attempt]) -> int:
    """Return the first attempt with the worst outcome; the last one if all passed.

    A failure says more than a hang, and both say more than an error of the lab.
    """
    for outcome in ("fail", "timeout", "error"):
        for i, attempt in enumerate(attempts):
            if attempt.verdict.outcome == outcome:
                return i

    return len(attempts) - 1


def combine(attempts: Sequence[Attempt]) -> Verdict:
    """Return the verdict on a cell by its attempts; ``flaky``: some passed and some did not."""

    verdict = attempts[_deciding_attempt(attempts)].verdict

    bad = sum(a.verdict.outcome != "pass" for a in attempts)
    if not 0 < bad < len(attempts):
        return verdict

    reason = f"{bad} of {len(attempts)} attempts did not pass; {verdict.outcome}: {verdict.reason}"

    return replace(verdict, outcome="flaky", reason=reason)


def default_jobs() -> int:
    """Return the default number of simultaneous labs: one a core, at most four."""
    return max(1, min(4, len(os.sched_getaffinity(0))))


def judge_cell(cell: Cell, seen: Seen) -> Verdict:
    """The verdict on a cell that has run.

    The output of a user's program is compared with that of the first cell that passes.
    """

    own = cell.case.own
    if own is None or not own.conditions.output:
        return judge(seen.facts(cell))

    with own.references.lock:
        seen.evidence = replace(
            seen.evidence, output=_compare_output(own, cell, seen.output)
        )

        verdict = judge(seen.facts(cell))
        if verdict.outcome == "pass" and seen.output is not None:
            own.references.keep(str(cell.topology), cell.id, seen.output[1])

    return verdict


def _compare_output(
    own: OwnProgram, cell: Cell, output: tuple[str, bytes] | None
) -> OutputSeen | None:
    if output is None:
        return None

    node, octets = output
    seen = OutputSeen(
        node=node, size=len(octets), sha256=hashlib.sha256(octets).hexdigest()
    )

    known = own.references.of(str(cell.topology))
    if known is None:
        return seen

    whose, other = known
    apart = difference(octets, other, own.conditions.tolerance)

    return replace(seen, compared_to=whose, difference=apart)


@dataclass(frozen=True, slots=True, kw_only=True)
class Care:
    """How labs are opened, kept and given away."""

    terms: Terms = field(default_factory=Terms)
    isolated: bool = False  # whether every attempt gets a fresh one
    # Called after each attempt; True: the lab now belongs to the user, and a new one is opened.
    keep: Callable[[Cell, Verdict, Lab], bool] | None = None
    # Finds a lab that is there already; no function, or None from it: the backend opens one.
    open: Callable[[Cell], Lab | None] | None = None
    # Where remote parties learn what they have to know
    invitations: Invitations | None = None

    @property
    def shares(self) -> bool:
        """Whether cells may use parts of labs: not if the user gets, or has, the cell's own lab."""
        return not self.isolated and self.keep is None and self.open is None


class _Bench:
    """The one lab of a worker."""

    def __init__(
        self,
        backend: Backend,
        run: str,
        care: Care,
        places: Mapping[str, Place],
        unclosed: Callable[[ImpiError], None],
    ) -> None:
        self._places = places
        self._backend, self._run, self._care = backend, run, care
        self._unclosed = unclosed  # called if a lab cannot be closed
        self.lab: Lab | None = None
        self._prepared: Prepared | None = None
        # Parts of the lab that cells have used, by vendors and topology
        self._parts: dict[tuple[tuple[str, ...], Topology], Prepared] = {}
        self._left: set[str] = set()  # what its parts have found on its nodes
        self._until = 0.0
        self.kind: object = None  # of its lab; None: there is none

    def ready(self, cell: Cell) -> Prepared:
        """Return the lab for this cell, opened if there is none. LabError: it cannot be opened."""
        place = self._places[cell.id]
        if self.kind != place.kind:
            self.discard()
            self.kind = place.kind

        if self.lab is not None and time.monotonic() > self._until:
            # Nodes end by themselves after ``ttl_s``, and must not do so within a cell.
            self.discard()

        if self._prepared is None:
            terms = replace(self._care.terms, six=cell.six, compiled=cell.compiled)
            self._until = time.monotonic() + terms.ttl_s / 2
            there = self._care.open(cell) if self._care.open is not None else None
            self.lab = there or self._backend.open(
                place.vendors, place.topology, run=self._run, terms=terms
            )
            self._prepared = prepare(self.lab, self._run, self._care.invitations)

        return (
            self._part(self._prepared, cell, place) if place.nodes else self._prepared
        )

    def _part(self, whole: Prepared, cell: Cell, place: Place) -> Prepared:
        key = cell.vendors, cell.topology
        if key not in self._parts:
            nodes = dict(place.nodes)
            lab = LabPart(cast("SharedLab", whole.lab), *key, nodes, self._left)
            self._parts[key] = whole.part(lab, nodes)

        return self._parts[key]

    def after(self, cell: Cell, verdict: Verdict) -> bool:
        """Give the lab to the user, close it, or keep it for the next cell; True: it was given."""

        if self.lab is None:
            return False

        if self._care.keep is not None and self._care.keep(cell, verdict, self.lab):
            self.lab = self._prepared = None
            return True

        # Whatever made a cell fail may still be in its lab, and would fail the next cell, too.
        if verdict.outcome != "pass" or self._care.isolated or cell.breaks_lab:
            self.discard()

        return False

    def discard(self) -> None:
        lab, self.lab, self._prepared = self.lab, None, None
        self._parts, self._left = {}, set()
        if lab is not None:
            try:
                lab.close()
            except ImpiError as error:
                self._unclosed(error)


class _Queue:
    """The cells that no worker has begun, in groups of one lab each; safe for all threads."""

    def __init__(
        self, cells: Sequence[Cell], places: Mapping[str, Place], *, shares: bool
    ) -> None:
        """``shares``: whether several labs of the same kind can be opened."""

        self.places = places
        groups: dict[object, list[Cell]] = {}
        for cell in cells:
            groups.setdefault(places[cell.id].kind, []).append(cell)

        # The longest first: else the last worker would end long after the others.
        self._groups = sorted(groups.values(), key=lambda g: -len(g) * g[0].roster.size)
        self._begun: list[list[Cell]] = []
        self._shares = shares
        self._lock = threading.Lock()

    def next_group(self, *, spare: bool = False) -> list[Cell] | None:
        """Return a group not begun yet, or half of the longest one; None: nothing is left.

        ``spare``: the caller is one more than cells run at once, so halves would gain nothing.
        """
        with self._lock:
            if self._groups:
                group = self._groups.pop(0)
            else:
                group = [] if spare else self._take_half()

            if group:
                self._begun.append(group)

            return group or None

    def next_cell(self, group: list[Cell]) -> Cell | None:
        with self._lock:
            return group.pop(0) if group else None

    def _take_half(self) -> list[Cell]:
        """Take half of the group with most cells left; nothing if that is not worth a lab.

        The largest lab of tier faults once ran 262 of its 743 cells one after the other for 36
        minutes, the last six of them beside three idle workers.
        """

        # A kept lab, or one with remote parties, cannot be opened twice.
        if not self._shares:
            return []

        shared = (
            group
            for group in self._begun
            if group and not any(map(is_remote, group[0].vendors))
        )
        longest = max(shared, key=len, default=[])

        half = longest[(len(longest) + 1) // 2 :]
        if len(half) < _WORTH_A_LAB:
            return []

        del longest[-len(half) :]

        return half


class _Cores:
    """Limits how many cells and procs run at once, because MPI libraries spin while they wait."""

    def __init__(self, slots: int, jobs: int) -> None:
        self.slots = slots
        self._jobs = jobs
        self._busy = self._cells = 0
        self._changed = threading.Condition()

    def take(self, procs: int, ending: Callable[[], bool]) -> bool:
        """Wait until this many procs fit; one cell alone always does. False: the run is ending."""
        with self._changed:
            while not (self._fits(procs) or ending()):
                self._changed.wait(_LOOK_S)

            if ending():
                return False

            self._busy += procs
            self._cells += 1

            return True

    def _fits(self, procs: int) -> bool:
        return not self._cells or (
            self._cells < self._jobs and self._busy + procs <= self.slots
        )

    def give(self, procs: int) -> None:
        with self._changed:
            self._busy -= procs
            self._cells -= 1
            self._changed.notify_all()


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
        self._backend, self._run, self._jobs, self._mutation = (
            backend,
            run,
            jobs,
            mutation,
        )
        self._limits, self._care, self._persistence = (
            limits or Limits(),
            care or Care(),
            persistence or Persistence(),
        )
        # True: the cell was expected to end so, and another attempt does not help.
        self._expected = expected
        # Called with each cell that was under way when the run was interrupted, one at a time.
        self._cut_off = cut_off
        # Callbacks come from one thread at a time.
        self._lock = threading.Lock()
        self._cores = _Cores(
            slots or _PROCS_PER_CORE * len(os.sched_getaffinity(0)), jobs
        )
        self._failure: BaseException | None = None
        # set it to end the run soon: no new cell begins, running ones are looked at
        self.stop = threading.Event()
        # set it, too, to end the run at once: nothing more is looked at
        self.hurry = threading.Event()
        self._enough = False

    def run(
        self,
        cells: Sequence[Cell],
        began: Callable[[Cell], None],
        done: Callable[[Done], None],
    ) -> None:
        """Run the cells. ``began`` and ``done`` are called from one thread at a time.

        Raises:
            BaseException: whatever ``began`` or ``done`` raised; all labs are closed by then.
            ImpiError: all cells are over, and a lab could not be closed.
        """

        places = share(cells, parts=self._backend.parts and self._care.shares)
        queue = _Queue(cells, places, shares=self._care.open is None)

        workers = [
            threading.Thread(
                target=self._work,
                args=(queue, i >= self._jobs, began, done),
                name=f"worker {i}",
            )
            for i in range(min(self._jobs + (self._jobs > 1), len(cells)))
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

    def _work(
        self,
        queue: _Queue,
        spare: bool,
        began: Callable[[Cell], None],
        done: Callable[[Done], None],
    ) -> None:
        bench = _Bench(
            self._backend, self._run, self._care, queue.places, self._unclosed
        )
        try:
            while not self._is_ending():
                group = queue.next_group(spare=spare)
                if group is None:
                    return

                self._run_group(queue, bench, group, began, done)
        except BaseException as error:
            with self._lock:
                self._failure = self._failure or error

            self.stop.set()
        finally:
            bench.discard()

    def _unclosed(self, error: ImpiError) -> None:
        """Note that a lab could not be closed: that fails the run, and ends none of its cells."""
        with self._lock:
            self._failure = self._failure or error

    def _is_ending(self) -> bool:
        return self._enough or self.stop.is_set()

    def _run_group(
        self,
        queue: _Queue,
        bench: _Bench,
        group: list[Cell],
        began: Callable[[Cell], None],
        done: Callable[[Done], None],
    ) -> None:
        # A broken pair says nothing of other pairs in the same lab.
        timeouts: dict[tuple[tuple[str, ...], str], list[Done]] = {}
        while (cell := queue.next_cell(group)) is not None:
            of_pair = timeouts.setdefault(cell.lab, [])
            result: Done | None
            if len(of_pair) >= _MOST_TIMEOUTS:
                result = _given_up(cell, of_pair[-1].verdict)
            else:
                result = self._run_cell(bench, cell, began)

            if result is None:
                return

            if (
                result.verdict.outcome == "timeout"
                and result.attempts
                and not self._is_satisfied(cell, result)
            ):
                of_pair.append(result)

            with self._lock:
                done(result)

    def _run_cell(
        self, bench: _Bench, cell: Cell, began: Callable[[Cell], None]
    ) -> Done | None:
        """Make all attempts at a cell; None: the run ended before they decided anything."""

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
                # captures are large, so the last attempt that passed stands for all
                attempts[-1] = replace(attempts[-1], seen=None)

            if sum(a.seen is not None for a in attempts) >= _MOST_KEPT:
                attempt = replace(attempt, seen=None)

            attempts.append(attempt)
            satisfied = self._is_satisfied(cell, attempt)

            kept = bench.after(cell, attempt.verdict)
            if attempt.verdict.outcome != "pass":
                self._enough = self._enough or (
                    self._persistence.until_fail and not satisfied
                )

            goes_on = self._persistence.goes_on(attempts, satisfied=satisfied)

        return Done(
            cell=cell, verdict=combine(attempts), attempts=tuple(attempts), kept=kept
        )

    def _is_satisfied(self, cell: Cell, what: Attempt | Done) -> bool:
        return what.verdict.outcome == "pass" or self._expected(cell, what.verdict)

    def _attempt(
        self, bench: _Bench, cell: Cell, began: Callable[[Cell], None]
    ) -> Attempt | None:
        """Make one attempt as soon as its procs fit; None if the run was ended."""

        if self._is_ending():
            return None

        with self._lock:
            began(cell)

        start = time.monotonic()
        try:
            # Beside the cells of other workers: that is mostly waiting for the backend.
            prepared = bench.ready(cell)
        except ImpiError as error:
            verdict: Verdict = Verdict(
                outcome="error", phase="up", blame="lab", reason=str(error)
            )
            return self._report_attempt(
                Attempt(verdict=verdict, seconds=time.monotonic() - start), cell
            )

        opened_s = time.monotonic() - start
        if not self._cores.take(cell.roster.size, self._is_ending):
            return None

        start = time.monotonic()
        try:
            verdict, seen = self._run_once(prepared, cell)
        finally:
            self._cores.give(cell.roster.size)

        attempt = Attempt(
            verdict=verdict,
            seconds=opened_s + time.monotonic() - start,
            seen=seen,
            lab=prepared.lab.access.lab,
        )
        return self._report_attempt(attempt, cell)

    def _report_attempt(self, attempt: Attempt, cell: Cell) -> Attempt | None:
        """Return the attempt, unless the end of the run may have made it fail."""
        verdict = attempt.verdict
        if self.stop.is_set() and verdict.outcome != "pass":
            if not self.hurry.is_set():
                # An interrupt may have made it fail: what was seen is kept, and no verdict is.
                with self._lock:
                    self._cut_off(attempt, cell)

            return None

        return attempt

    def _run_once(self, prepared: Prepared, cell: Cell) -> tuple[Verdict, Seen]:
        # A cell with more procs than there is room for runs that much slower.
        limits = self._limits.scaled(max(1.0, cell.roster.size / self._cores.slots))
        seen = run_cell(prepared, cell, limits, self.stop, self._mutation, self.hurry)

        return judge_cell(cell, seen), seen


def _given_up(cell: Cell, last: Verdict) -> Done:
    """Return the verdict on a cell that was not tried, because nothing ends in its lab."""
    reason = f"pair broken: {_MOST_TIMEOUTS} cells of {cell.parties} on {cell.topology} timed out, so it was not tried"
    return Done(
        cell=cell, verdict=Verdict(outcome="skipped", phase=last.phase, reason=reason)
    )
