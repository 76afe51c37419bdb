"""``impilab repro``: run one cell of a run again, under the conditions of that run.

Its exit code is for ``git bisect run``: 0 good, 1 bad, 125 not testable for whatever reason, and
130 if interrupted, which ends a bisection.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from impi.base.errors import LabError, UsageError, refuse
from impi.base.exit_codes import ExitCode
from impi.cli.ending import Ending, Verbs, add_verb
from impi.cli.lab.enter import enter
from impi.cli.lab.keep import LEAST_TTL_S, REPLACE, Keeping, check_health, seconds, ttl
from impi.cli.lab.run import ending
from impi.cli.lab.select import BACKEND, RUNS
from impi.lab.backends.lifecycle.cleanup import remove_lab
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.builds import parse_replacements
from impi.lab.nodes.interface import Backend, Lab, Terms
from impi.lab.nodes.saved import SavedLab, forget_lab, list_labs, way_in
from impi.lab.plan.cell import Cell, select
from impi.lab.plan.matrix import Plan
from impi.lab.report.history import EarlierRun, read_run
from impi.lab.report.results import RunFolder
from impi.lab.report.show import Screen
from impi.lab.run.execute import Limits
from impi.lab.run.schedule import Care, Done, Persistence, Scheduler

_GOOD, _BAD = ExitCode.OK, ExitCode.FAILED
_CODES: Final[dict[str, int]] = {
    "pass": _GOOD,
    "xpass": _GOOD,
    "fail": _BAD,
    "timeout": _BAD,
    "flaky": _BAD,
    # A bisection asks whether the cell passes, and not whether that was known.
    "xfail": _BAD,
}
REPRO_ENDING: Final = Ending(
    prog="impilab",
    usage=ExitCode.UNTESTED,
    wrong=ExitCode.UNTESTED,
    interrupted=ExitCode.SIGINT,
)
_EPILOG: Final = """
  impilab repro 4f1c09a                              as the newest run ran it
  impilab repro 4f1c09a --keep                       leave its lab running; edit impi, and repro uses it
  impilab repro 4f1c09a --shell c1n0                 look around on a node afterwards
  impilab repro 4f1c09a --history                    first the cells that ran in its lab before it
  impilab repro 4f1c09a --replace mpich=/opt/mine    with your own build of MPICH
  git bisect run impilab repro 4f1c09a --run runs/20261121T083654-c321

exit codes: 0 good, 1 bad, 125 could not be tested, 130 interrupted
"""


def add_repro(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impilab``."""
    add_verb(
        verbs,
        "repro",
        _repro,
        {
            "cell": {
                "metavar": "CELL",
                "help": "its id or hash, or a selector that names only it",
            },
            "--run": {
                "type": Path,
                "default": RUNS / "latest",
                "metavar": "DIR",
                "help": "folder of the run (default: runs/latest)",
            },
            "--keep": {
                "action": "store_true",
                "help": "leave the lab running, and print how you get in",
            },
            "--shell": {
                "nargs": "?",
                "const": "",
                "metavar": "NODE",
                "help": "open a shell on a node after the cell (c0n0)",
            },
            "--capture": {
                "action": "store_true",
                "help": "keep its captures, whatever the run's own option says",
            },
            "--history": {
                "action": "store_true",
                "help": "first run the cells that its lab ran before it, in the same order",
            },
            "--isolation": {
                "choices": ("lab", "cell"),
                "default": "lab",
                "help": "cell: a fresh lab for every cell; lab: one for all",
            },
            "--repeat": {
                "type": int,
                "default": 1,
                "metavar": "N",
                "help": "number of attempts (default: 1)",
            },
            "--until-fail": {
                "action": "store_true",
                "help": "with --repeat: stop once an attempt does not pass",
            },
            **REPLACE,
            **ttl("2h"),
            **BACKEND,
        },
        help="run one cell of a run again, as it was run there",
        epilog=_EPILOG,
    )


def _repro(options: argparse.Namespace) -> int:
    _check(options)
    terms = Terms(ttl_s=seconds("--ttl", options.ttl, least=LEAST_TTL_S))
    earlier = read_run(options.run.parent, options.run.name)

    cell = cell_of(earlier, options.cell)
    if options.shell and options.shell not in _nodes(cell):
        raise UsageError(
            f"--shell {options.shell}: the nodes of {cell.id} are {', '.join(_nodes(cell))}"
        )

    # The command line of the run has the conditions, such as its timeouts and captures.
    before = options.parser.parse_args(earlier.head["argv"])
    backend: Backend = options.choose(options.backend or earlier.head["backend"])

    reason = backend.supports(cell.topology, cell.vendors)
    if reason:
        raise LabError(f"{cell.id} cannot be run here: {reason}")

    builds = {
        **parse_replacements(before.replace),
        **parse_replacements(options.replace),
    }
    check_health(backend)
    backend.prepare(sorted(set(cell.vendors)), builds, compiled=cell.compiled)
    history = earlier.before(cell) if options.history else []
    more = [
        word
        for vendor, what in builds.items()
        for word in ("--replace", f"{vendor}={what}")
    ]
    folder = RunFolder.create(
        earlier.path / "repro",
        Plan((cell,), ()),
        argv=[*_without_replace(earlier.head["argv"]), *more],
        backend=backend.name,
        seed=earlier.head["seed"],
        builds={vendor: build.digest for vendor, build in backend.builds.items()},
    )
    folder.capture = "keep" if options.capture else before.capture

    # The results are a run of their own, below the one that is repeated, which stays as it is.
    again = _Again(options, earlier, cell, backend, folder)
    with contextlib.closing(folder):
        return again.run(history, Limits().scaled(before.timeout_scale), terms)


def _check(options: argparse.Namespace) -> None:
    refuse(
        (options.repeat < 1, f"--repeat {options.repeat}: a number from 1 on"),
        (
            options.until_fail and options.repeat == 1,
            "--until-fail needs --repeat N: say how often at most",
        ),
        (
            (options.keep or options.shell is not None)
            and options.repeat > 1
            and not options.until_fail,
            "--keep or --shell with --repeat needs --until-fail: they are about one attempt",
        ),
        (
            options.history and options.repeat > 1,
            "--history and --repeat contradict each other: the second attempt had another history",
        ),
    )


def cell_of(earlier: EarlierRun, text: str) -> Cell:
    """Return the one cell of a run that a selector names; UsageError: there is none, or several."""

    found = select(earlier.plan.cells, [text])
    if len(found) == 1:
        return found[0]

    if found:
        raise UsageError(
            f"{text!r} names {len(found)} cells of run {earlier.path.name}; repro takes one, such as {found[0].id}"
        )

    excluded = next(
        (e for e in earlier.plan.excluded if select([e.cell], [text])), None
    )
    why = (
        f"; it left {excluded.cell.id} out: {excluded.reason}"
        if excluded is not None
        else ""
    )
    raise UsageError(
        f"run {earlier.path.name} has no cell {text!r}{why}; name its run with --run DIR"
    )


def _nodes(cell: Cell) -> list[str]:
    return ["server", *dict.fromkeys(planned.node for planned in cell.roster.ranks)]


def _without_replace(argv: Sequence[str]) -> list[str]:
    """Return the run's own arguments without its builds under test, which are added anew."""
    found, skip = [], False
    for word in argv:
        if skip or word == "--replace":
            skip = not skip
        elif not word.startswith("--replace="):
            found.append(word)

    return found


class _Again:
    def __init__(
        self,
        options: argparse.Namespace,
        earlier: EarlierRun,
        cell: Cell,
        backend: Backend,
        folder: RunFolder,
    ) -> None:
        self._options, self._earlier, self._cell = options, earlier, cell
        self._backend, self._folder = backend, folder
        self._console = Console()
        self._keeping = Keeping(backend)
        self._history: list[Cell] = []
        self._broken: Done | None = None
        self._done: Done | None = None
        self._standing: SavedLab | None = None

    def run(self, history: list[Cell], limits: Limits, terms: Terms) -> int:
        options, self._history = self._options, list(history)
        isolated = options.isolation == "cell"
        care = Care(
            terms=terms,
            isolated=isolated,
            keep=self._keep if options.keep or options.shell is not None else None,
            # A kept lab has a history of its own, and not the one that is asked for.
            open=None if isolated or history else self._open,
        )
        persistence = Persistence(repeat=options.repeat, until_fail=options.until_fail)
        scheduler = Scheduler(
            self._backend,
            self._folder.name,
            limits=limits,
            care=care,
            persistence=persistence,
            cut_off=self._folder.add_cut_off,
        )
        self._say(
            f"{self._cell.id} as in run {self._earlier.path.name}, seed {self._folder.seed}"
        )
        screen = Screen(self._console, len(history) + 1, self._folder.path)

        def done(result: Done) -> None:
            # The cells of the history come first, in their order. What
            # comes then is the cell itself.
            if self._history:
                self._history.pop(0)
                # Then its lab is another one than in that run, and the cell would say nothing.
                if result.verdict.outcome != "pass":
                    self._broken = result
                    scheduler.stop.set()
            else:
                self._done = result
                self._folder.add(result)

            screen.done(result)

        with screen, ending(scheduler, screen.tell):
            scheduler.run([*history, self._cell], screen.began, done)

        code = self._code()
        self._folder.finish(code)

        saved = self._keeping.of(self._cell)
        # A lab that was kept before, and is not kept now, has been closed.
        if self._standing is not None and (
            saved is None or saved.name != self._standing.name
        ):
            forget_lab(self._standing)

        self._tell()
        if saved is not None:
            self._leave(saved)

        return code

    # -- its lab

    def _open(self, cell: Cell) -> Lab | None:
        """Return a lab that an earlier repro of this cell has kept, if it has the same builds."""
        kept = {
            seen.lab for seen in self._backend.inventory.find() if seen.state == "kept"
        }
        # A lab that was kept for this cell has the cell's hash as its name, with
        # a number if there are several.
        for saved in list_labs():
            access = saved.access

            mine = saved.name == cell.hash or saved.name.startswith(f"{cell.hash}-")
            if mine and access.lab in kept and access.backend == self._backend.name:
                builds = {
                    vendor: build
                    for vendor, build in self._backend.builds.items()
                    if vendor in cell.vendors
                }
                if dict(access.builds) != builds:
                    self._say(
                        f"lab {saved.name} has other builds: it stays unchanged, and a new lab is opened"
                    )
                    continue

                try:
                    lab = self._backend.attach(access)
                except LabError as error:
                    self._say(
                        f"lab {saved.name} cannot be used again ({error}); a new one is opened"
                    )
                    continue

                self._standing = saved
                self._say(f"in lab {saved.name}, which was kept")

                return lab

        return None

    def _keep(self, cell: Cell, verdict: Verdict, lab: Lab) -> bool:
        if self._history or (self._options.repeat > 1 and verdict.outcome == "pass"):
            return False

        return self._keeping.keep(cell, verdict, lab)

    def _leave(self, saved: SavedLab) -> None:
        if self._options.shell is not None:
            enter(saved, self._options.shell or saved.first, ())

        if self._options.keep:
            for line in way_in(saved, self._options.shell or ""):
                self._say(line)
        else:
            remove_lab(self._backend.inventory, saved.access.lab)
            forget_lab(saved)

    # -- what came of it

    def _code(self) -> int:
        if self._done is not None:
            return _CODES.get(self._done.counts_as, ExitCode.UNTESTED)

        # Without any result the user has interrupted, which ends a bisection.
        return ExitCode.UNTESTED if self._broken is not None else ExitCode.SIGINT

    def _tell(self) -> None:
        record = next(
            (r for r in self._earlier.records if r["id"] == self._cell.id), None
        )

        # The outcome of that run stands beside today's: the question is whether it comes again.
        before = (
            f"in that run: {record['outcome']}"
            if record is not None
            else "that run had not reached it"
        )
        if record is not None and record["reason"]:
            before += f" in {record['phase']}: {record['reason']}"

        if self._done is not None:
            outcome = self._done.verdict.outcome
            words: dict[int, str] = {_GOOD: "good", _BAD: "bad"}
            what = words.get(self._code(), "not tested")
            self._say(f"{what}: {outcome}; {before}")
        elif self._broken is not None:
            self._say(
                f"not tested: {self._broken.cell.id} of its history did not pass this time; {before}"
            )
        else:
            self._say("interrupted")

        self._say(f"results {self._folder.path}")

    def _say(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True, markup=False)
