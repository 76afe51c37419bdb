"""``impilab``: runs the matrix of vendors, topologies and cases, and says what became of it.

Exit codes: 0 as expected, 1 failures, 2 interrupted, 3 the lab's own fault, 4 usage, 5 nothing selected.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from rich.console import Console

from impi import __version__
from impi.errors import ImpiError, LabError, UsageError
from impi.testbed.backends import choose_backend
from impi.testbed.cases import CASES
from impi.testbed.cell import VENDORS, parse_parties, select
from impi.testbed.clusters import find_cluster, list_clusters
from impi.testbed.execute import Limits
from impi.testbed.matrix import TIERS, Plan, cells_of, make_plan
from impi.testbed.results import RunFolder, exit_code, list_runs, sign
from impi.testbed.runner import Backend, Finding
from impi.testbed.schedule import Done, Scheduler, default_jobs
from impi.testbed.show import Screen, matrix

__all__ = ["main"]

_INTERRUPTED, _LAB, _USAGE, _NOTHING = 2, 3, 4, 5
_RUNS: Final = Path("runs")
_CLUSTERS: Final = Path("clusters")
_MOST_JOBS: Final = 64

_SELECTORS: Final = """
selectors are globs on a cell's id CASE/PARTIES/TOPOLOGY[/VARIANT], or its 7-character hash:
  impilab run p2p.ring                      the case everywhere
  impilab run '*/mpich+*'                   all cells whose client 0 runs MPICH
  impilab run 'coll.*/*/2x2+2x2' -x '*/*pure*'
"""


class _Parser(argparse.ArgumentParser):
    """Usage errors in one sentence, with our exit code."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see '{self.prog} --help'")


def main(argv: Sequence[str] | None = None, *, choose: Callable[[str | None], Backend] = choose_backend) -> int:
    """Run the command line; the exit code is returned. ``choose`` brings the backend (the tests bring their own)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    code: int | None = None
    try:
        options = _parser().parse_args(arguments)
        options.argv, options.choose = arguments, choose
        handler: Callable[[argparse.Namespace], int] = options.handler
        code = handler(options)
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _complain(error, _USAGE)
    except ImpiError as error:
        return _complain(error, _LAB)
    except KeyboardInterrupt:
        print("impilab: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has had enough; what the interpreter would flush at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if code is None and arguments[:1] == ["run"]:
            return _complain(LabError("the reader of the results is gone: the run was not finished"), _LAB)
        return code or 0


def _complain(error: ImpiError, code: int) -> int:
    print(f"impilab: {error}", file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="impilab",
        description="Runs MPI jobs across MPI implementations in a lab of nodes, and proves what happened.",
        epilog="exit codes: 0 as expected, 1 failures, 2 interrupted, 3 the lab's own fault, 4 usage, 5 nothing chosen",
    )
    parser.add_argument("--version", action="version", version=f"impilab {__version__}")
    verbs = parser.add_subparsers(metavar="VERB", required=True, parser_class=_Parser)
    for name, handler, text in (("run", _run, "run cells"), ("plan", _plan, "show which cells would be run")):
        verb = verbs.add_parser(
            name, help=text, epilog=_SELECTORS, formatter_class=argparse.RawDescriptionHelpFormatter
        )
        verb.set_defaults(handler=handler)
        _add_selection(verb)
        if name == "run":
            _add_run(verb)
    verb = verbs.add_parser("ls", help="list cases, vendors, topologies or runs")
    verb.add_argument("what", choices=("cases", "vendors", "topologies", "runs"))
    verb.set_defaults(handler=_ls)
    verb = verbs.add_parser("clean", help="remove what earlier runs left behind; live runs are spared")
    verb.add_argument("--all", action="store_true", help="images and live runs too")
    _add_backend(verb)
    verb.set_defaults(handler=_clean)
    verb = verbs.add_parser("doctor", help="examine everything that a run needs, with the cure for what is wrong")
    _add_backend(verb)
    verb.set_defaults(handler=_doctor)
    return parser


def _add_selection(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("selectors", nargs="*", metavar="SELECTOR", help="which cells; without one, all of the tier")
    verb.add_argument("-x", "--exclude", action="append", default=[], metavar="SELECTOR", help="but not these")
    verb.add_argument("--tier", choices=TIERS, help="how much to select from (default: pairs)")
    verb.add_argument("--topology", metavar="T", help="such as 2x2+1x4, or a file of clusters/: all cases on it")
    verb.add_argument("--parties", metavar="A+B", help="the vendors of the clients, in their order")
    _add_backend(verb)


def _add_backend(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--backend", choices=("docker", "local"), help="where to run; default: docker, if it is installed"
    )


def _add_run(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--jobs", type=int, metavar="N", help="labs beside each other (default: one a core, at most 4)")
    verb.add_argument("--timeout-scale", type=float, default=1.0, metavar="F", help="all deadlines longer by a factor")
    verb.add_argument("--keep", action="store_true", help="leave the labs of failed cells running")
    verb.add_argument("--runs", type=Path, default=_RUNS, metavar="DIR", help="where the results go (default: runs)")


# -- run and plan


def _planned(options: argparse.Namespace, backend: Backend) -> Plan:
    """The cells that the command line selects; an empty plan if there is none."""
    if options.tier and (options.topology or options.parties):
        raise UsageError("--tier and --topology or --parties contradict each other; leave one of them out")
    topologies, parties = [], [parse_parties(options.parties)] if options.parties else []
    if options.topology:
        cluster = find_cluster(options.topology, _CLUSTERS)
        topologies = [cluster.topology]
        if cluster.parties and not parties:
            parties = [cluster.parties]
    cells = cells_of(options.tier or "pairs", topologies, parties)
    return make_plan(select(cells, options.selectors, options.exclude), backend)


def _nothing(plan: Plan) -> int:
    why = f": {plan.excluded[0].reason}" if plan.excluded else "; 'impilab plan' shows what there is"
    print(f"impilab: nothing to run{why}", file=sys.stderr)
    return _NOTHING


def _plan(options: argparse.Namespace) -> int:
    plan = _planned(options, options.choose(options.backend))
    if not plan.cells and not plan.excluded:
        return _nothing(plan)
    for cell in plan.cells:
        print(f"{cell.hash}  {cell.id}")
    for excluded in plan.excluded:
        print(f"{excluded.cell.hash}  {excluded.cell.id}  unsupported: {excluded.reason}")
    print(f"{len(plan.cells)} cells, {len({c.lab for c in plan.cells})} labs, {len(plan.excluded)} unsupported")
    return 0 if plan.cells else _NOTHING


def _run(options: argparse.Namespace) -> int:
    jobs = default_jobs() if options.jobs is None else options.jobs
    if not 1 <= jobs <= _MOST_JOBS:
        raise UsageError(f"--jobs {jobs}: from 1 to {_MOST_JOBS} labs can run beside each other")
    if not 0.01 <= options.timeout_scale <= 1000:
        raise UsageError(f"--timeout-scale {options.timeout_scale}: a factor from 0.01 to 1000")
    backend: Backend = options.choose(options.backend)
    plan = _planned(options, backend)
    if not plan.cells:
        return _nothing(plan)
    sick = [finding for finding in backend.doctor() if not finding.ok and finding.fatal]
    if sick:
        raise LabError(
            "; ".join(f"{f.subject}: {f.detail} ({f.cure})" if f.cure else f"{f.subject}: {f.detail}" for f in sick)
        )
    backend.prepare(sorted({vendor for cell in plan.cells for vendor in cell.vendors}))
    folder = RunFolder(options.runs, argv=options.argv, backend=backend.name)
    scheduler = Scheduler(
        backend, folder.name, jobs=jobs, limits=Limits().scaled(options.timeout_scale), keep=options.keep
    )
    return _run_cells(plan, folder, scheduler, Console())


def _run_cells(plan: Plan, folder: RunFolder, scheduler: Scheduler, console: Console) -> int:
    results: list[Done] = []
    console.print(f"run {folder.name}: {len(plan.cells)} cells, {len(plan.excluded)} unsupported", highlight=False)
    screen = Screen(console, len(plan.cells), folder.path)

    def done(result: Done) -> None:
        folder.add(result)
        results.append(result)
        screen.done(result)

    try:
        with screen, _ending(scheduler):
            scheduler.run(plan.cells, screen.began, done)
    finally:
        over = {result.cell.id for result in results}
        left = [cell for cell in plan.cells if cell.id not in over]
        for excluded in plan.excluded:
            folder.add_excluded(excluded)
        folder.add_skipped(left)
        code = exit_code(folder.outcomes, interrupted=bool(left) and scheduler.stop.is_set())
        folder.finish(code)
    _summary(plan, results, folder, console, code)
    return code


@contextlib.contextmanager
def _ending(scheduler: Scheduler) -> Iterator[None]:
    """Ctrl-C and TERM end the run in good order: labs closed, results written."""

    def end(_signum: int, _frame: FrameType | None) -> None:
        scheduler.stop.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _summary(plan: Plan, results: list[Done], folder: RunFolder, console: Console, code: int) -> None:
    if results:
        matrix(results, console)
    counts = {name: folder.outcomes.count(name) for name in dict.fromkeys(folder.outcomes)}
    text = ", ".join(f"{count} {name}" for name, count in counts.items())
    if any(r.verdict.self_reported for r in results):
        text += f"; {sign('pass', self_reported=True)} self-reported: no capture shows that anything crossed"
    if plan.excluded:
        text += f"; unsupported here: {plan.excluded[0].reason}"
    if code == _INTERRUPTED:
        text = f"interrupted: {text}"
    console.print(text, highlight=False, soft_wrap=True)
    console.print(f"results {folder.path}/results.json  junit {folder.path}/junit.xml", highlight=False, soft_wrap=True)


# -- the other verbs


def _ls(options: argparse.Namespace) -> int:
    match options.what:
        case "cases":
            for case in CASES.values():
                variants = "".join(f" [{v}]" for v in case.variants if v)
                print(f"{case.name:<20} {case.description}{variants} (IMPI {', '.join(case.clauses)})")
        case "vendors":
            for vendor, text in zip(
                VENDORS, ("impi's own transport, no MPI library", "MPICH", "Open MPI"), strict=True
            ):
                print(f"{vendor:<10} {text}")
        case "topologies":
            for cluster in list_clusters(_CLUSTERS):
                parties = "+".join(cluster.parties)
                print(f"{cluster.name:<14} {cluster.topology!s:<16} {parties:<22} {cluster.description}".rstrip())
        case "runs":
            for name, value in list_runs(_RUNS):
                totals = ", ".join(f"{count} {outcome}" for outcome, count in value["totals"].items())
                print(f"{name}  {value['backend']:<7} {value['seconds']:7.1f}s  exit {value['exit']}  {totals}")
    return 0


def _clean(options: argparse.Namespace) -> int:
    removed = options.choose(options.backend).clean(everything=options.all)
    for name in removed:
        print(f"removed {name}")
    print(f"{len(removed)} removed")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    findings: list[Finding] = options.choose(options.backend).doctor()
    for finding in findings:
        mark = "ok  " if finding.ok else ("bad " if finding.fatal else "note")
        cure = f"; {finding.cure}" if finding.cure and not finding.ok else ""
        print(f"{mark} {finding.subject}: {finding.detail}{cure}")
    return _LAB if any(not f.ok and f.fatal for f in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
