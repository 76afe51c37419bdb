"""``impilab run``."""

from __future__ import annotations

import argparse
import contextlib
import datetime
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
from impi.base.exit_codes import ExitCode
from impi.cli.ending import Verbs, add_verb
from impi.cli.lab.keep import LEAST_TTL_S, REPLACE, Keeping, check_health, seconds, ttl
from impi.cli.lab.plan import time_text
from impi.cli.lab.select import EXIT_CODES, SELECTION, SELECTORS, expectations_of, jobs_of, planned, some
from impi.lab.evidence.witness_reports import planned_digest
from impi.lab.judge.expectations import Expectations
from impi.lab.nodes.builds import parse_replacements
from impi.lab.nodes.interface import Terms
from impi.lab.plan.cell import Cell
from impi.lab.plan.matrix import NothingSelected, Plan
from impi.lab.report.evidence_files import CAPTURE_CHOICES
from impi.lab.report.history import EarlierRun, durations, read_run
from impi.lab.report.pages.run_pages import write_pages
from impi.lab.report.results import RunFolder, exit_code, sign, why_self_reported
from impi.lab.report.show import Screen, matrix
from impi.lab.report.upkeep import check_rows, check_run
from impi.lab.run.execute import Limits
from impi.lab.run.remote_party import Invitations
from impi.lab.run.schedule import Care, Done, Persistence, Scheduler

_MOST_ATTEMPTS: Final = 100_000
# Options that select cells; a resumed run has its selection.
_PLANNING: Final = (
    *("selectors", "exclude", "tier", "topology", "parties"),
    *("failed", "seed", "repeat", "until_fail"),
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
            "--resume": {"action": "store_true", "help": "go on with the newest run, which was interrupted"},
            "--retries": {
                "type": int,
                "default": 0,
                "metavar": "N",
                "help": "attempts more until a cell passes: flaky",
            },
            "--repeat": {"type": int, "default": 1, "metavar": "N", "help": "so many attempts at each cell"},
            "--until-fail": {"action": "store_true", "help": "with --repeat: end the run once a cell does not pass"},
            "--seed": {"type": int, "metavar": "N", "help": "of the order of the cells (default: another every time)"},
            "--timeout-scale": {
                "type": float,
                "default": 1.0,
                "metavar": "F",
                "help": "all deadlines longer by a factor (a cell: 10 s)",
            },
            "--keep": {"action": "store_true", "help": "leave the labs of failed cells running, for a look"},
            "--capture": {
                "choices": CAPTURE_CHOICES,
                "default": CAPTURE_CHOICES[0],
                "help": "of which cells captures and timelines are kept; they are always taken (default: keep, of all)",
            },
            "--isolation": {
                "choices": ("lab", "cell"),
                "default": "lab",
                "help": "cell: a fresh lab for every cell (default: lab)",
            },
            "--wait": {"default": "5m", "metavar": "TIME", "help": "for a remote party to join a cell (default: 5m)"},
            **REPLACE,
            **ttl("2h"),
        },
        help="run cells",
        epilog=f"{SELECTORS}\n{EXIT_CODES}",
    )


def resumed(options: argparse.Namespace, parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return the options of ``run --resume``: the interrupted run's and new ones; sets ``earlier``.

    Raises:
        UsageError: there is nothing to resume, or an option would change the selection.
        NothingSelected: the newest run came to all its cells.
    """
    plain = parser.parse_args(["run"])
    for name in _PLANNING:
        if getattr(options, name) != getattr(plain, name):
            raise UsageError("--resume goes on as it was planned; leave out everything that selects or orders cells")
    earlier = read_run(options.runs)
    if not earlier.left:
        raise NothingSelected(f"nothing to run: the newest run, {earlier.path.name}, came to all its cells")
    if options.backend not in (None, earlier.head["backend"]):
        raise UsageError(f"run {earlier.path.name} is one of backend {earlier.head['backend']}; leave --backend out")
    if earlier.source != planned_digest():
        raise UsageError(f"impi is another one now than in run {earlier.path.name}; start a new run")
    found = parser.parse_args([*earlier.head["argv"], *options.argv[1:]])
    found.argv, found.choose, found.earlier = options.argv, options.choose, earlier
    found.backend = earlier.head["backend"]
    return found


# -- the run


def _run(options: argparse.Namespace) -> int:
    jobs, persistence, expectations = jobs_of(options), _persistence(options), expectations_of(options)
    if not 0.01 <= options.timeout_scale <= 1000:
        raise UsageError(f"--timeout-scale {options.timeout_scale}: a factor from 0.01 to 1000")
    terms = Terms(ttl_s=seconds("--ttl", options.ttl, least=LEAST_TTL_S))
    own, backend = parse_replacements(options.replace), options.choose(options.backend)
    earlier: EarlierRun | None = getattr(options, "earlier", None)
    plan = some(earlier.plan if earlier is not None else planned(options, backend))
    check_health(backend)
    needed = sorted({vendor for cell in plan.cells for vendor in cell.vendors})
    backend.prepare(needed, own, compiled=any(cell.compiled for cell in plan.cells))
    builds = {vendor: build.digest for vendor, build in backend.builds.items()}
    if earlier is not None:
        if builds != earlier.head["builds"]:
            raise UsageError(f"other builds are under test now than in run {earlier.path.name}; start a new run")
        folder = RunFolder.reopen(earlier.path, earlier.head, earlier.records)
    else:
        seed = secrets.randbelow(10_000) if options.seed is None else options.seed
        plan = replace(plan, cells=tuple(_shuffled(plan.cells, seed)))
        folder = RunFolder.create(options.runs, plan, argv=options.argv, backend=backend.name, seed=seed, builds=builds)
    keeping = Keeping(backend)
    invitations = Invitations(folder.path / "invitations", _tell)
    scheduler = Scheduler(
        backend,
        folder.name,
        jobs=jobs,
        limits=replace(Limits().scaled(options.timeout_scale), remote=seconds("--wait", options.wait, least=1)),
        care=Care(
            terms=terms,
            isolated=options.isolation == "cell",
            keep=keeping.keep_red if options.keep else None,
            invitations=invitations,
        ),
        persistence=persistence,
        expected=lambda cell, verdict: expectations.find(cell, verdict) is not None,
        cut_off=folder.add_cut_off,
        # What the user asks for is done, although the processors are too few for all procs at once.
        slots=options.jobs and options.jobs * max((cell.roster.size for cell in plan.cells), default=1),
    )
    folder.capture = options.capture
    before = [_explained(done, expectations) for done in earlier.dones] if earlier is not None else []
    known = durations(options.runs, backend.name)
    with contextlib.closing(folder):
        run = _Run(plan, folder, scheduler, expectations, before)
        code = run.run(lambda cells: time_text(cells, known, jobs, persistence.repeat))
        run.say_kept(keeping)
        return code


def _tell(text: str) -> None:
    print(f"impilab: {text}", file=sys.stderr, flush=True)


def _persistence(options: argparse.Namespace) -> Persistence:
    for name in ("retries", "repeat"):
        if not (name == "repeat") <= getattr(options, name) <= _MOST_ATTEMPTS:
            raise UsageError(f"--{name} {getattr(options, name)}: a number from {int(name == 'repeat')} on")
    refuse(
        (options.retries and options.repeat > 1, "--retries and --repeat contradict each other; leave one of them out"),
        (options.until_fail and options.repeat == 1, "--until-fail needs --repeat N: say how often at most"),
    )
    return Persistence(retries=options.retries, repeat=options.repeat, until_fail=options.until_fail)


def _shuffled(cells: Sequence[Cell], seed: int) -> list[Cell]:
    """Shuffle by the seed alone: effects of a cell on later ones in its lab show sooner."""
    found = list(cells)
    random.Random(seed).shuffle(found)  # noqa: S311  (an order that can be repeated)
    return found


def _explained(done: Done, expectations: Expectations) -> Done:
    # Rows cannot explain cells that were not even tried.
    return replace(done, row=expectations.find(done.cell, done.verdict) if done.attempts else None)


class _Run:
    def __init__(
        self, plan: Plan, folder: RunFolder, scheduler: Scheduler, expectations: Expectations, before: Sequence[Done]
    ) -> None:
        self._plan, self._folder, self._scheduler, self._expectations = plan, folder, scheduler, expectations
        self._results = list(before)
        self._console = Console()
        folder.restate(before)

    def run(self, time_text: Callable[[Sequence[Cell]], str]) -> int:
        plan, folder, results, scheduler = self._plan, self._folder, self._results, self._scheduler
        left = self._left()
        resumed = f", {len(results)} of them over before" if results else ""
        self._say(
            f"run {folder.name} on {folder.backend}: {len(plan.cells)} cells{resumed},"
            f" {len(plan.unsupported)} unsupported, seed {folder.seed}; {time_text(left)}"
        )
        screen = Screen(self._console, len(left), folder.path)

        def done(result: Done) -> None:
            explained = _explained(result, self._expectations)
            folder.add(explained)
            screen.done(explained)
            results.append(explained.without_evidence())  # captures of a whole tier would fill the memory

        try:
            with screen, ending(scheduler, screen.tell):
                scheduler.run(left, screen.began, done)
        finally:
            code, problems = self._finish()
        self._summary(code, problems)
        return code

    def _left(self) -> list[Cell]:
        over = {result.cell.id for result in self._results}
        return [cell for cell in self._plan.cells if cell.id not in over]

    def _finish(self) -> tuple[int, list[str]]:
        left, interrupted = self._left(), self._scheduler.stop.is_set()
        for excluded in self._plan.unsupported:
            self._folder.add_excluded(excluded)
        self._folder.add_skipped(left, "the run was interrupted" if interrupted else "the run ended early")
        problems = check_rows(self._expectations, datetime.date.today(), self._results)
        problems += check_run(self._expectations, self._results)
        skipped = ["skipped"] * len(left)
        results = [result.counts_as for result in self._results]
        code = exit_code([*results, *skipped], interrupted=bool(left) and interrupted, stale=bool(problems))
        self._folder.finish(code, problems)
        self._page = write_pages(self._folder.path)
        return code, problems

    def _summary(self, code: int, problems: Sequence[str]) -> None:
        if self._results:
            matrix(self._results, self._console)
        for problem in problems:
            self._say(f"expectations: {problem}")
        text = ", ".join(f"{count} {name}" for name, count in self._folder.totals.items())
        if own := [r.verdict for r in self._results if r.verdict.self_reported]:
            why = why_self_reported(name for verdict in own for name in verdict.unseen)
            text += f"; {sign('pass', self_reported=True)} {why}"
        if self._plan.unsupported:
            text += f"; unsupported here: {self._plan.unsupported[0].reason}"
        if code == ExitCode.INTERRUPTED:
            text = f"interrupted: {text}; 'impilab run --resume' goes on"
        self._say(text)
        self._say(f"results {self._folder.path}/results.json  junit {self._folder.path}/junit.xml")
        self._say(f"report {self._page}")

    def say_kept(self, keeping: Keeping) -> None:
        for line in keeping.lines(self._plan.cells):
            self._say(line)

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


@contextlib.contextmanager
def ending(scheduler: Scheduler, tell: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C and TERM end the run in order: look at running cells, close labs, write results.

    The second time nothing more is looked at.
    """

    def end(_signum: int, _frame: FrameType | None) -> None:
        if scheduler.stop.is_set():
            scheduler.hurry.set()
        else:
            tell("interrupted: a last look at what runs; once more to end at once")
        scheduler.stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
