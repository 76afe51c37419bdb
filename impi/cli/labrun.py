"""``impilab run`` and ``impilab plan``."""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import random
import secrets
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console

from impi.errors import LabError, UsageError
from impi.testbed.cell import Cell, parse_parties, select
from impi.testbed.clusters import find_cluster
from impi.testbed.evidence_files import CAPTURE_CHOICES
from impi.testbed.execute import Limits
from impi.testbed.expectations import DEFAULT_FILE, Expectations, load
from impi.testbed.history import DEFAULT_S, EarlierRun, durations, expected_s, read_run
from impi.testbed.matrix import DEFAULT_TIER, TIERS, NothingSelected, Plan, choose
from impi.testbed.reports import planned_digest
from impi.testbed.results import RunFolder, exit_code, plan_value, sign
from impi.testbed.runner import Backend
from impi.testbed.schedule import Done, Persistence, Scheduler, default_jobs
from impi.testbed.show import Screen, matrix
from impi.testbed.upkeep import check_rows, check_run

__all__ = ["CLUSTERS", "RUNS", "SELECTORS", "add_plan", "add_run", "expectations_of", "resumed"]

RUNS: Final = Path("runs")
CLUSTERS: Final = Path("clusters")
_MOST_JOBS: Final = 64
_MOST_ATTEMPTS: Final = 100_000
_INTERRUPTED: Final = 2
_PLANNING: Final = (
    *("selectors", "exclude", "tier", "topology", "parties"),
    *("failed", "seed", "repeat", "until_fail"),
)
"""Options that say what is run; a run that is resumed has had its answers."""

SELECTORS: Final = """
selectors are globs on a cell's id CASE/PARTIES/TOPOLOGY[/VARIANT], with @TAG in the place of the case if you like, or
a 7-character hash; whole ids and hashes need not belong to the tier:
  impilab run p2p.ring                      the case everywhere
  impilab run '*/mpich+*'                   all cells whose client 0 runs MPICH
  impilab run '@collective/*/2x2+2x2' -x '*/*pure*'
  impilab run '@p2p' --retries 2            what passes only when tried again is flaky, not passed
  impilab run 4f1c09a --repeat 50 --until-fail
  impilab run --resume                      go on with the newest run, which was interrupted
  impilab run --failed                      what did not pass in the newest run
"""


# -- the command line


def add_plan(verb: argparse.ArgumentParser) -> None:
    """The options of ``plan``."""
    verb.set_defaults(handler=_plan)
    _add_selection(verb)
    verb.add_argument("--json", action="store_true", help="as JSON")


def add_run(verb: argparse.ArgumentParser) -> None:
    """The options of ``run``."""
    verb.set_defaults(handler=_run)
    _add_selection(verb)
    verb.add_argument("--resume", action="store_true", help="go on with the newest run, which was interrupted")
    verb.add_argument("--retries", type=int, default=0, metavar="N", help="attempts more until a cell passes: flaky")
    verb.add_argument("--repeat", type=int, default=1, metavar="N", help="so many attempts at each cell")
    verb.add_argument("--until-fail", action="store_true", help="with --repeat: end the run once a cell does not pass")
    verb.add_argument("--seed", type=int, metavar="N", help="of the order of the cells (default: another every time)")
    verb.add_argument(
        "--timeout-scale", type=float, default=1.0, metavar="F", help="all deadlines longer by a factor (a cell: 10 s)"
    )
    verb.add_argument("--keep", action="store_true", help="leave the labs of failed cells running")
    verb.add_argument(
        "--capture",
        choices=CAPTURE_CHOICES,
        default=CAPTURE_CHOICES[0],
        help="of which cells captures and timelines are kept; they are always taken (default: keep, of all)",
    )


def _add_selection(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("selectors", nargs="*", metavar="SELECTOR", help="which cells; without one, all of the tier")
    verb.add_argument("-x", "--exclude", action="append", default=[], metavar="SELECTOR", help="but not these")
    verb.add_argument("--tier", choices=TIERS, help=f"how much to select from (default: {DEFAULT_TIER})")
    verb.add_argument("--topology", metavar="T", help="such as 2x2+1x4, or a file of clusters/: all cases on it")
    verb.add_argument("--parties", metavar="A+B", help="the vendors of the clients, in their order")
    verb.add_argument("--failed", action="store_true", help="of these, only what did not pass in the newest run")
    verb.add_argument("--expect", type=Path, metavar="FILE", help=f"what is not to pass (default: {DEFAULT_FILE})")
    verb.add_argument("--jobs", type=int, metavar="N", help="labs beside each other (default: one a core, at most 4)")
    verb.add_argument("--runs", type=Path, default=RUNS, metavar="DIR", help="where the results go (default: runs)")
    verb.add_argument(
        "--backend", choices=("docker", "local"), help="where to run; default: docker, if it is installed"
    )


def resumed(options: argparse.Namespace, parser: argparse.ArgumentParser) -> argparse.Namespace:
    """The options of ``run --resume``: those of the interrupted run, and what is given now; ``earlier`` is that run.

    Raises:
        UsageError: there is nothing to resume, or an option would change what the run consists of.
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


def expectations_of(path: Path | None) -> Expectations:
    """The rows of the file, of the usual one if there is one, or none."""
    if path is None and not DEFAULT_FILE.exists():
        return Expectations()
    return load(path or DEFAULT_FILE)


# -- the plan


def _planned(options: argparse.Namespace, backend: Backend) -> Plan:
    """The cells that the command line selects."""
    if options.tier and (options.topology is not None or options.parties is not None):
        raise UsageError("--tier and --topology or --parties contradict each other; leave one of them out")
    topologies, parties = [], [parse_parties(options.parties)] if options.parties is not None else []
    if options.topology is not None:
        cluster = find_cluster(options.topology, CLUSTERS)
        topologies = [cluster.topology]
        if cluster.parties and not parties:
            parties = [cluster.parties]
    include = list(options.selectors)
    if options.failed:
        include = _failed(read_run(options.runs), include)
    return choose(
        backend,
        tier=options.tier or DEFAULT_TIER,
        topologies=topologies,
        parties=parties,
        include=include,
        exclude=options.exclude,
    )


def _failed(earlier: EarlierRun, selectors: Sequence[str]) -> list[str]:
    """Ids of the cells that did not pass in that run."""
    red = earlier.red
    if not red:
        raise NothingSelected(f"nothing to run: all cells of the newest run, {earlier.path.name}, passed")
    found = select(red, selectors)
    if not found:
        raise NothingSelected(f"nothing to run: none of the {len(red)} cells that did not pass is {selectors[0]!r}")
    return [cell.id for cell in found]


def _some(plan: Plan) -> Plan:
    """The plan; NothingSelected if it has no cell."""
    if not plan.cells:
        raise NothingSelected(f"nothing to run: {plan.excluded[0].reason}" if plan.excluded else "nothing to run")
    return plan


def _jobs(options: argparse.Namespace) -> int:
    jobs = default_jobs() if options.jobs is None else int(options.jobs)
    if not 1 <= jobs <= _MOST_JOBS:
        raise UsageError(f"--jobs {jobs}: from 1 to {_MOST_JOBS} labs can run beside each other")
    return jobs


def _plan(options: argparse.Namespace) -> int:
    jobs, expectations = _jobs(options), expectations_of(options.expect)
    backend: Backend = options.choose(options.backend)
    plan = _planned(options, backend)
    known = durations(options.runs, backend.name)
    seconds = expected_s(plan.cells, known, jobs)
    if options.json:
        value = {**plan_value(plan), "expected_seconds": round(seconds, 1), "jobs": jobs}
        print(json.dumps(value, indent=1))
        return _code(plan)
    for cell in plan.cells:
        row = next((row for row in expectations.rows if row.names(cell)), None)
        expected = f"  {row.result} expected: {row.issue}" if row is not None else ""
        print(f"{cell.hash}  {cell.id:<52} {known.get(cell.id, DEFAULT_S):6.1f}s{expected}")
    for excluded in plan.excluded:
        kind = "unsupported" if excluded.kind == "unsupported" else "excluded"
        print(f"{excluded.cell.hash}  {excluded.cell.id}  {kind}: {excluded.reason}")
    print(f"{_counts(plan)}; {_time(plan.cells, known, jobs)}")
    return _code(plan)


def _code(plan: Plan) -> int:
    return 0 if plan.cells else 5


def _counts(plan: Plan) -> str:
    left_out = {e.reason: 0 for e in plan.excluded if e.kind != "unsupported"}
    for excluded in plan.excluded:
        if excluded.reason in left_out:
            left_out[excluded.reason] += 1
    labs = len({cell.lab for cell in plan.cells})
    parts = [f"{len(plan.cells)} cells", f"{labs} labs", f"{len(plan.unsupported)} unsupported"]
    return ", ".join([*parts, *(f"{count} left out ({reason})" for reason, count in left_out.items())])


def _time(cells: Sequence[Cell], known: dict[str, float], jobs: int, repeat: int = 1) -> str:
    seconds = round(expected_s(cells, known, jobs) * repeat)
    text = f"about {seconds // 60} min {seconds % 60} s" if seconds >= 60 else f"about {seconds} s"
    new = sum(cell.id not in known for cell in cells)
    guess = f", {new} of them guessed at {DEFAULT_S} s" if new else ""
    return f"{text} with {jobs} beside each other{guess}"


# -- the run


def _run(options: argparse.Namespace) -> int:
    jobs, persistence, expectations = _jobs(options), _persistence(options), expectations_of(options.expect)
    if not 0.01 <= options.timeout_scale <= 1000:
        raise UsageError(f"--timeout-scale {options.timeout_scale}: a factor from 0.01 to 1000")
    backend: Backend = options.choose(options.backend)
    earlier: EarlierRun | None = getattr(options, "earlier", None)
    plan = _some(earlier.plan if earlier is not None else _planned(options, backend))
    sick = [finding for finding in backend.doctor() if not finding.ok and finding.fatal]
    if sick:
        raise LabError(
            "; ".join(f"{f.subject}: {f.detail} ({f.cure})" if f.cure else f"{f.subject}: {f.detail}" for f in sick)
        )
    backend.prepare(sorted({vendor for cell in plan.cells for vendor in cell.vendors}))
    if earlier is not None:
        folder = RunFolder.reopen(earlier.path, earlier.head, earlier.records)
    else:
        seed = secrets.randbelow(10_000) if options.seed is None else options.seed
        plan = replace(plan, cells=tuple(_shuffled(plan.cells, seed)))
        folder = RunFolder.create(options.runs, plan, argv=options.argv, backend=backend.name, seed=seed)
    scheduler = Scheduler(
        backend,
        folder.name,
        jobs=jobs,
        limits=Limits().scaled(options.timeout_scale),
        keep=options.keep,
        persistence=persistence,
        expected=lambda cell, verdict: expectations.find(cell, verdict) is not None,
        cut_off=folder.add_cut_off,
    )
    folder.capture = options.capture
    before = [_explained(done, expectations) for done in earlier.dones] if earlier is not None else []
    known = durations(options.runs, backend.name)
    with contextlib.closing(folder):
        return _Run(plan, folder, scheduler, expectations, before).run(
            lambda cells: _time(cells, known, jobs, persistence.repeat)
        )


def _persistence(options: argparse.Namespace) -> Persistence:
    for name in ("retries", "repeat"):
        if not (name == "repeat") <= getattr(options, name) <= _MOST_ATTEMPTS:
            raise UsageError(f"--{name} {getattr(options, name)}: a number from {int(name == 'repeat')} on")
    if options.retries and options.repeat > 1:
        raise UsageError("--retries and --repeat contradict each other; leave one of them out")
    if options.until_fail and options.repeat == 1:
        raise UsageError("--until-fail needs --repeat N: say how often at most")
    return Persistence(retries=options.retries, repeat=options.repeat, until_fail=options.until_fail)


def _shuffled(cells: Sequence[Cell], seed: int) -> list[Cell]:
    """In an order that depends on nothing but the seed: what a cell leaves behind in its lab is found sooner."""
    found = list(cells)
    random.Random(seed).shuffle(found)
    return found


def _explained(done: Done, expectations: Expectations) -> Done:
    # What was not even tried, no row can know about.
    return replace(done, row=expectations.find(done.cell, done.verdict) if done.attempts else None)


class _Run:
    """A run under way, and what is written down and shown of it."""

    def __init__(
        self, plan: Plan, folder: RunFolder, scheduler: Scheduler, expectations: Expectations, before: Sequence[Done]
    ) -> None:
        self._plan, self._folder, self._scheduler, self._expectations = plan, folder, scheduler, expectations
        self._results = list(before)
        self._console = Console()
        folder.restate(before)

    def run(self, time_text: Callable[[Sequence[Cell]], str]) -> int:
        """Run what is left of the plan; the exit code."""
        plan, folder, results, scheduler = self._plan, self._folder, self._results, self._scheduler
        left = self._left()
        resumed = f", {len(results)} of them over before" if results else ""
        self._say(
            f"run {folder.name}: {len(plan.cells)} cells{resumed}, {len(plan.unsupported)} unsupported,"
            f" seed {folder.seed}; {time_text(left)}"
        )
        screen = Screen(self._console, len(left), folder.path)

        def done(result: Done) -> None:
            explained = _explained(result, self._expectations)
            folder.add(explained)
            results.append(explained)
            screen.done(explained)

        try:
            with screen, _ending(scheduler, screen.tell):
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
        return code, problems

    def _summary(self, code: int, problems: Sequence[str]) -> None:
        if self._results:
            matrix(self._results, self._console)
        for problem in problems:
            self._say(f"expectations: {problem}")
        text = ", ".join(f"{count} {name}" for name, count in self._folder.totals.items())
        if any(r.verdict.self_reported for r in self._results):
            text += f"; {sign('pass', self_reported=True)} self-reported: no capture shows that anything crossed"
        if self._plan.unsupported:
            text += f"; unsupported here: {self._plan.unsupported[0].reason}"
        if code == _INTERRUPTED:
            text = f"interrupted: {text}; 'impilab run --resume' goes on"
        self._say(text)
        self._say(f"results {self._folder.path}/results.json  junit {self._folder.path}/junit.xml")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)


@contextlib.contextmanager
def _ending(scheduler: Scheduler, tell: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C and TERM end the run in good order: what runs is looked at, labs closed, results written.

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
