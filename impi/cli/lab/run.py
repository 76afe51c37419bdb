"""``impilab run``: select cells, run them, judge them, and write the results and pages."""

from __future__ import annotations

import argparse
import contextlib
import random
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from types import FrameType
from typing import Final

from rich.console import Console

from impi.base.errors import UsageError, refuse
from impi.cli.ending import Verbs, add_verb
from impi.cli.lab.keep import LEAST_TTL_S, REPLACE, Keeping, check_health, seconds, ttl
from impi.cli.lab.plan import time_text
from impi.cli.lab.select import (
    EXIT_CODES,
    SELECTION,
    SELECTORS,
    backend_of,
    expectations_of,
    jobs_of,
    planned,
    some,
)
from impi.lab.evidence.witness_reports import planned_digest
from impi.lab.judge.expectations import Expectations
from impi.lab.nodes.builds import parse_replacements
from impi.lab.nodes.interface import Terms
from impi.lab.plan.cell import Cell
from impi.lab.plan.matrix import NothingSelected, Plan
from impi.lab.report.conclusion import Conclusion, explained
from impi.lab.report.evidence_files import CAPTURE_CHOICES
from impi.lab.report.history import EarlierRun, durations, read_run
from impi.lab.report.keeping.old_runs import RED, WHOLE, rule, tidy_runs
from impi.lab.report.results import RunFolder
from impi.lab.report.show import Screen
from impi.lab.run.execute import Limits
from impi.lab.run.remote_party import Invitations
from impi.lab.run.schedule import Care, Done, Persistence, Scheduler

_MOST_ATTEMPTS: Final = 100_000
# Options that select or order cells: a resumed run keeps its plan.
_PLANNING: Final = (
    *("selectors", "exclude", "tier", "topology", "parties"),
    *("failed", "shard", "seed", "repeat", "until_fail", "guest", "prove_unsupported"),
    *("program", "args", "exit_code", "output", "tolerance", "reference", "limit"),
)

# -- the command line


def add_run(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impilab``."""
    add_verb(
        verbs,
        "run",
        _run,
        {
            **SELECTION,
            "--resume": {
                "action": "store_true",
                "help": "continue the newest run, if it was interrupted",
            },
            "--retries": {
                "type": int,
                "default": 0,
                "metavar": "N",
                "help": "number of further attempts at a cell that does not pass; if one passes, the cell is flaky "
                "(default: 0)",
            },
            "--repeat": {
                "type": int,
                "default": 1,
                "metavar": "N",
                "help": "number of attempts at each cell",
            },
            "--until-fail": {
                "action": "store_true",
                "help": "with --repeat: end the run once a cell does not pass",
            },
            "--seed": {
                "type": int,
                "metavar": "N",
                "help": "seed for the order of cells (default: a new one)",
            },
            "--timeout-scale": {
                "type": float,
                "default": 1.0,
                "metavar": "F",
                "help": "factor for all deadlines, such as the 10 s of a cell (default: 1)",
            },
            "--keep": {
                "action": "store_true",
                "help": "leave the labs of failed cells running, so that you can look around",
            },
            "--capture": {
                "choices": CAPTURE_CHOICES,
                "default": CAPTURE_CHOICES[0],
                "help": "cells whose captures and timelines are kept; packets of all cells are captured (default: "
                "keep, of all cells)",
            },
            "--isolation": {
                "choices": ("lab", "cell"),
                "default": "lab",
                "help": "cell: a fresh lab for every cell; lab: one lab for many cells (default: lab)",
            },
            "--keep-runs": {
                "type": int,
                "default": WHOLE,
                "metavar": "N",
                "help": f"number of runs that stay whole. Red cells stay for {RED} runs; older runs are removed "
                f"(default: {WHOLE}; 0: all stay)",
            },
            "--wait": {
                "default": "5m",
                "metavar": "TIME",
                "help": "limit for a remote party to join (default: 5m)",
            },
            **REPLACE,
            **ttl("2h"),
        },
        help="run cells",
        epilog=f"{SELECTORS}\n{EXIT_CODES}",
    )


def resumed(
    options: argparse.Namespace, parser: argparse.ArgumentParser
) -> argparse.Namespace:
    """Return the options of ``run --resume``: those of the interrupted run, then the new ones.

    The attribute ``earlier`` is the interrupted run.

    Raises:
        UsageError: there is no run to resume, or an option would change the plan.
        NothingSelected: the newest run ran all its cells.
    """

    # An option that differs from this was given.
    plain = parser.parse_args(["run"])
    for name in _PLANNING:
        if getattr(options, name) != getattr(plain, name):
            raise UsageError(
                "--resume keeps the plan of its run; leave out all options that select or order cells"
            )

    earlier = read_run(options.runs)
    # A run that was killed behind its last cell has no results yet, and goes on to write them.
    if not earlier.left and (earlier.path / "results.json").exists():
        raise NothingSelected(
            f"nothing to run: the newest run, {earlier.path.name}, ran all its cells"
        )

    if options.backend not in (None, earlier.head["backend"]):
        raise UsageError(
            f"run {earlier.path.name} is one of backend {earlier.head['backend']}; leave --backend out"
        )

    # The second half would judge other code than the first.
    if earlier.source != planned_digest():
        raise UsageError(
            f"impi has changed since run {earlier.path.name}; start a new run"
        )

    # New words come last and win: the number of jobs may change, for
    # instance, and the plan may not.
    found = parser.parse_args([*earlier.head["argv"], *options.argv[1:]])
    found.argv, found.choose, found.earlier = options.argv, options.choose, earlier
    found.backend = earlier.head["backend"]

    return found


# -- the run


def _run(options: argparse.Namespace) -> int:
    # Every mistake of the user is found before the backend prepares, which may take minutes.
    jobs, persistence, expectations = (
        jobs_of(options),
        _persistence(options),
        expectations_of(options),
    )
    refuse(
        (
            not 0.01 <= options.timeout_scale <= 1000,
            f"--timeout-scale {options.timeout_scale}: a factor from 0.01 to 1000",
        ),
        (
            options.keep_runs < 0,
            f"--keep-runs {options.keep_runs}: a number from 1 on, or 0 for all",
        ),
    )
    terms = Terms(ttl_s=seconds("--ttl", options.ttl, least=LEAST_TTL_S))
    own, backend = parse_replacements(options.replace), backend_of(options)
    earlier: EarlierRun | None = getattr(options, "earlier", None)
    plan = some(earlier.plan if earlier is not None else planned(options, backend))
    check_health(backend)
    needed = sorted({vendor for cell in plan.cells for vendor in cell.vendors})
    backend.prepare(needed, own, compiled=any(cell.compiled for cell in plan.cells))

    builds = {vendor: build.digest for vendor, build in backend.builds.items()}
    if earlier is not None:
        # One report must not be about two builds of a library.
        if builds != earlier.head["builds"]:
            raise UsageError(
                f"other builds are under test now than in run {earlier.path.name}; start a new run"
            )

        folder = RunFolder.reopen(earlier.path, earlier.head, earlier.records)
    else:
        seed = secrets.randbelow(10_000) if options.seed is None else options.seed
        plan = replace(plan, cells=tuple(_shuffled(plan.cells, seed)))
        folder = RunFolder.create(
            options.runs,
            plan,
            argv=options.argv,
            backend=backend.name,
            seed=seed,
            builds=builds,
        )

    keeping = Keeping(backend)
    invitations = Invitations(folder.path / "invitations", _tell)
    scheduler = Scheduler(
        backend,
        folder.name,
        jobs=jobs,
        limits=replace(
            Limits().scaled(options.timeout_scale),
            remote=seconds("--wait", options.wait, least=1),
        ),
        care=Care(
            terms=terms,
            isolated=options.isolation == "cell",
            keep=keeping.keep_red if options.keep else None,
            invitations=invitations,
        ),
        persistence=persistence,
        expected=lambda cell, verdict: expectations.find(cell, verdict) is not None,
        cut_off=folder.add_cut_off,
        # With --jobs the user decides, even if there are too few processors for all procs at once.
        slots=options.jobs
        and options.jobs * max((cell.roster.size for cell in plan.cells), default=1),
    )
    folder.capture = options.capture
    before = (
        [explained(done, expectations) for done in earlier.dones]
        if earlier is not None
        else []
    )

    known = durations(options.runs, backend.name)
    with contextlib.closing(folder):
        run = _Run(plan, folder, scheduler, expectations, before)
        code = run.run(lambda cells: time_text(cells, known, jobs, persistence.repeat))
        run.say_kept(keeping)

    _tidy(options)

    return code


def _tidy(options: argparse.Namespace) -> None:
    """Keep runs by the rule, and say what went."""
    if removed := tidy_runs(options.runs, options.keep_runs).sentence:
        print(f"runs: {rule(options.keep_runs)}; {removed} (--keep-runs 0 keeps all)")


def _tell(text: str) -> None:
    print(f"impilab: {text}", file=sys.stderr, flush=True)


def _persistence(options: argparse.Namespace) -> Persistence:
    for name in ("retries", "repeat"):
        if not (name == "repeat") <= getattr(options, name) <= _MOST_ATTEMPTS:
            raise UsageError(
                f"--{name} {getattr(options, name)}: a number from {int(name == 'repeat')} on"
            )

    refuse(
        (
            options.retries and options.repeat > 1,
            "--retries and --repeat contradict each other; leave one of them out",
        ),
        (
            options.until_fail and options.repeat == 1,
            "--until-fail needs --repeat N: say how often at most",
        ),
    )
    return Persistence(
        retries=options.retries, repeat=options.repeat, until_fail=options.until_fail
    )


def _shuffled(cells: Sequence[Cell], seed: int) -> list[Cell]:
    """Return the cells in an order that depends on the seed alone.

    In a shuffled order, effects of a cell on later ones in its lab show sooner.
    """
    found = list(cells)
    random.Random(seed).shuffle(found)  # noqa: S311  (an order that can be repeated)

    return found


class _Run:
    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        scheduler: Scheduler,
        expectations: Expectations,
        before: Sequence[Done],
    ) -> None:
        self._plan, self._folder, self._scheduler, self._expectations = (
            plan,
            folder,
            scheduler,
            expectations,
        )
        self._results = list(before)
        self._console = Console()

        folder.restate(before)
        if folder.note:
            _tell(folder.note)

    def run(self, time_text: Callable[[Sequence[Cell]], str]) -> int:
        plan, folder, results, scheduler = (
            self._plan,
            self._folder,
            self._results,
            self._scheduler,
        )
        left = self._left()
        resumed = f", {len(results)} of them done before" if results else ""
        self._say(
            f"run {folder.name} on {folder.backend}: {len(plan.cells)} cells{resumed},"
            f" {len(plan.unsupported)} unsupported, seed {folder.seed}; {time_text(left)}"
        )
        screen = Screen(self._console, len(left), folder.path)

        def done(result: Done) -> None:
            known = explained(result, self._expectations)
            # Written before it is shown: whatever ends this process, no result
            # is lost that somebody has seen.
            folder.add(known)
            screen.done(known)
            # Captures of a whole tier would fill the memory
            results.append(known.without_evidence())

        try:
            with screen, ending(scheduler, screen.tell):
                scheduler.run(left, screen.began, done)
        finally:
            # Also after an error or an interrupt: what was found out stays,
            # and the other cells are skipped.
            conclusion = Conclusion(
                plan,
                folder,
                results,
                self._expectations,
                interrupted=scheduler.stop.is_set(),
            )

        conclusion.show(self._console)

        return conclusion.code

    def _left(self) -> list[Cell]:
        over = {result.cell.id for result in self._results}
        return [cell for cell in self._plan.cells if cell.id not in over]

    def say_kept(self, keeping: Keeping) -> None:
        for line in keeping.lines(self._plan.cells):
            self._say(line)

    def _say(self, text: str) -> None:
        # A selector or a path may have brackets, which rich would take for markup.
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


@contextlib.contextmanager
def ending(scheduler: Scheduler, tell: Callable[[str], None]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the run: examine running cells, close labs, write results.

    A second signal ends it without examining the cells.
    """

    def end(_signum: int, _frame: FrameType | None) -> None:
        if scheduler.stop.is_set():
            scheduler.hurry.set()
        else:
            tell(
                "interrupted: examining the running cells; interrupt again to end at once"
            )

        scheduler.stop.set()

    before = {
        number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
