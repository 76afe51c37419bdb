"""Judges a compat run: tests that must pass, tests that may fail, gaps that have closed."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from compat_run import Layout, Ran

HERE: Final = Path(__file__).parent
LISTS: Final = {"class A": HERE / "class_a.txt", "layerable": HERE / "layerable.txt"}
"""Files of tests: for IMPI 0.0 itself, and for calls that can be made of messages."""
LEAST_LAYERABLE: Final = 600
"""Number of the 680 tests that must pass on a job of all vendors."""
MOST_LOST: Final = 15
"""Number of class A's 926 tests that pass under a vendor and may fail there."""


@dataclass(frozen=True)
class Gap:
    """Tests that need not pass."""

    tests: str
    """A test's full name, or a pattern of such names."""
    reason: str

    def covers(self, test: str) -> bool:
        return fnmatchcase(test, self.tests)

    def covers_module(self, module: str) -> bool:
        return self.tests == f"{module}.*"


def read_gaps(path: Path) -> list[Gap]:
    """The list of known gaps. Raises ValueError: one has no reason."""
    gaps = []
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["gap"]:
        if not entry["reason"].strip():
            raise ValueError(f"{path.name}: the gap {entry['tests']} has no reason")
        gaps += [Gap(tests, entry["reason"]) for tests in entry["tests"]]
    return gaps


def unmeasured(gaps: Sequence[Gap], counted: frozenset[str]) -> list[str]:
    """Patterns of gaps without a test in the lists: no vendor is ever asked."""
    return [gap.tests for gap in gaps if not any(gap.covers(test) for test in counted)]


def faults(ours: Sequence[Ran], own: Sequence[Ran], gaps: Sequence[Gap]) -> list[str]:
    """One sentence for everything that is not as it must be.

    A test must pass on a job of ours if it passes on the own job of any vendor with as many procs.
    A gap must be
    needed: one all of whose tests pass wherever they ran is none any more.
    """
    passing = {
        (ran.layout.procs, test)
        for ran in own
        for test, found in ran.outcomes.items()
        if found == "passed"
    }
    found: list[str] = []
    # Without a measure ours would be asked nothing: a vendor's own failure is a fault too.
    for ran in [*ours, *own]:
        if ran.trouble and not any(gap.covers_module(ran.module) for gap in gaps):
            found.append(f"{ran.module} on {ran.layout.name}: {ran.trouble}")
    for ran in ours:
        for test, outcome in ran.outcomes.items():
            required = (ran.layout.procs, test) in passing and not any(
                gap.covers(test) for gap in gaps
            )
            if required and outcome != "passed":
                found.append(
                    f"{test} on {ran.layout.name}: {outcome}, though a vendor passes it ({ran.notes[test]})"
                )
        missing = {
            test
            for n, test in passing
            if n == ran.layout.procs and test.startswith(f"{ran.module}.")
        }
        found += [
            f"{test} on {ran.layout.name}: did not run, though a vendor passes it"
            for test in sorted(missing - set(ran.outcomes))
            if not any(gap.covers(test) for gap in gaps)
        ]
    for gap in gaps:
        outcomes = [
            o for ran in ours for test, o in ran.outcomes.items() if gap.covers(test)
        ]
        if outcomes and all(outcome == "passed" for outcome in outcomes):
            found.append(
                f"unexpected pass of {gap.tests}: take it off the list of gaps ({gap.reason})"
            )
    return found


def behind(
    plain: Sequence[Ran], handled: Sequence[Ran], gaps: Sequence[Gap]
) -> list[str]:
    """One sentence for each test that impi.MPI passes, and mpi4py itself over our library does not.

    ``gaps`` are tests that are not run with handles: they would hang.
    """
    passing = {
        (run.layout.name, test)
        for run in plain
        for test, out in run.outcomes.items()
        if out == "passed"
    }
    ours = {
        (run.layout.name.rpartition("/")[2], test): (run, out)
        for run in handled
        for test, out in run.outcomes.items()
    }
    ill = {(run.layout.name, run.module) for run in plain if run.trouble}
    found = [
        f"{run.module} on {run.layout.name}: {run.trouble}"
        for run in handled
        if run.trouble and (run.layout.name.rpartition("/")[2], run.module) not in ill
    ]
    for layout, test in sorted(passing):
        run, out = ours.get((layout, test), (None, "did not run"))
        if out != "passed" and not any(gap.covers(test) for gap in gaps):
            note = f" ({run.notes[test]})" if run else ""
            found.append(
                f"{test} on {layout}: {out} with handles, though impi.MPI passes it{note}"
            )
    return found


def read_list(path: Path) -> frozenset[str]:
    """The tests of a file, one a line; ``#`` begins a comment."""
    lines = (
        line.partition("#")[0].strip()
        for line in path.read_text(encoding="utf-8").splitlines()
    )
    return frozenset(line for line in lines if line)


def standing(
    ours: Sequence[Ran],
    own: Sequence[Ran],
    lists: Mapping[str, frozenset[str]],
    judged: Layout,
) -> tuple[list[str], list[str]]:
    """Count passes of each list on each layout, and on the best vendor's own job of that size.

    Returns lines to print, and a sentence for each goal that ``judged`` misses:
    :data:`LEAST_LAYERABLE` and :data:`MOST_LOST`. If not all of the lists' modules ran there and on
    a vendor, a line says that nothing is judged.
    """
    lines, found = [], []
    for layout in dict.fromkeys(ran.layout for ran in ours):
        mine = _passed(ran for ran in ours if ran.layout == layout)
        same = {ran.layout for ran in own if ran.layout.procs == layout.procs}
        theirs = {
            other: _passed(ran for ran in own if ran.layout == other) for other in same
        }
        parts = []
        for name, tests in lists.items():
            count = f"{name} {len(mine & tests)} of {len(tests)}"
            best = max(
                theirs,
                key=lambda other: (len(theirs[other] & tests), other.name),
                default=None,
            )
            if best is not None:
                count += f" ({len(theirs[best] & tests)} on {best.name})"
            parts.append(count)
        lines.append(f"{layout.name}: {', '.join(parts)}")
        if layout != judged:
            continue
        needed = {test.partition(".")[0] for tests in lists.values() for test in tests}
        absent = needed - {ran.module for ran in ours if ran.layout == judged}
        absent |= needed - {ran.module for ran in own if ran.layout in same}
        if absent:
            lines.append(
                f"  not judged: {len(absent)} modules did not run, such as {min(absent)}"
            )
            continue
        layerable = len(mine & lists["layerable"])
        if layerable < LEAST_LAYERABLE:
            found.append(
                f"{judged.name}: {layerable} layerable tests pass, fewer than {LEAST_LAYERABLE}"
            )
        lost = sorted((frozenset().union(*theirs.values()) & lists["class A"]) - mine)
        if len(lost) > MOST_LOST:
            several = f"{len(lost)} tests of class A that a vendor passes do not, more than {MOST_LOST}"
            found.append(f"{judged.name}: {several}, such as {lost[0]}")
    return lines, found


def _passed(rans: Iterable[Ran]) -> frozenset[str]:
    return frozenset(
        test
        for ran in rans
        for test, outcome in ran.outcomes.items()
        if outcome == "passed"
    )


def table(rans: Sequence[Ran]) -> list[str]:
    """A line per module, a column per layout: passed/skipped/failed, ``!`` for job trouble."""
    layouts = list(dict.fromkeys(ran.layout.name for ran in rans))
    modules = list(dict.fromkeys(ran.module for ran in rans))
    cells = {(ran.module, ran.layout.name): _cell(ran) for ran in rans}
    width = {
        name: max(len(name), *(len(cells.get((m, name), "")) for m in modules))
        for name in layouts
    }
    first = max(len("module"), *(len(module) for module in modules))
    lines = [
        "  ".join(
            [f"{'module':{first}}", *(f"{name:>{width[name]}}" for name in layouts)]
        )
    ]
    for module in modules:
        row = [
            f"{module:{first}}",
            *(f"{cells.get((module, name), '-'):>{width[name]}}" for name in layouts),
        ]
        lines.append("  ".join(row))
    totals = []
    for name in layouts:
        mine = [ran for ran in rans if ran.layout.name == name]
        total = "/".join(str(sum(_counts(ran)[i] for ran in mine)) for i in range(3))
        totals.append(f"{total:>{width[name]}}")
    lines.append("  ".join([f"{'total':{first}}", *totals]))
    return lines


def _counts(ran: Ran) -> tuple[int, int, int]:
    return (
        ran.count("passed"),
        ran.count("skipped"),
        ran.count("failed") + ran.count("unfinished"),
    )


def _cell(ran: Ran) -> str:
    return "/".join(map(str, _counts(ran))) + ("!" if ran.trouble else "")
