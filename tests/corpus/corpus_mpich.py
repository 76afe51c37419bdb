"""MPICH's own tests of the C interface, on jobs of several clients and under MPICH alone.

The programs are compiled once, for the standard ABI. A test that passes under MPICH's mpiexec must
pass on our jobs, unless corpus_mpich.toml says why not; a listed one that passes is a fault, too.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from argparse import Namespace
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import corpus_mpich_suite as suite
from corpus_jobs import Ran, end_all, run_binary
from corpus_mpich_suite import FOLDERS, Case

NAME: Final = "mpich"
TITLE: Final = "MPICH's test suite"
ALONE: Final = "own:mpich"
FRONT: Final = "front:"
"""Before a layout: programs compiled for MPICH's own ABI, in front mode in clients of MPICH."""
LAYOUTS: Final = ("pure+pure", "mpich+openmpi", "front:mpich+mpich")
SPAWNS: Final = "spawn"
"""The folder whose programs start others of it, by paths such as ``./spawn1``."""
EXPECTATIONS: Final = Path(__file__).with_suffix(".toml")
RESULTS: Final = suite.BUILD / "results"
PASSED, FAILED, UNCOMPILED = "passed", "failed", "not compiled"


@dataclass(frozen=True)
class Expected:
    """Tests that do not pass on our jobs."""

    tests: tuple[str, ...]
    """Patterns of names: ``folder/program procs arguments``."""
    reason: str
    layouts: tuple[str, ...] = ()
    """On these alone; () is on all."""
    slow: bool = False
    """Whether they pass on a machine that is fast enough: no fault either way."""

    def covers(self, name: str, layout: str) -> bool:
        here = not self.layouts or layout in self.layouts
        return here and any(fnmatchcase(name, pattern) for pattern in self.tests)


@dataclass(frozen=True)
class Result:
    """How one test ended on one layout."""

    name: str
    outcome: str
    note: str = ""
    seconds: float = 0.0


def run(options: Namespace) -> int:
    """Run the suite; 1 if a test does not end as it must."""
    suite.fetch()
    every = [test for test in suite.cases() if re.search(options.only, test.name)]
    layouts = options.layout or (
        [ALONE, *LAYOUTS] if options.whole else ["mpich+openmpi"]
    )
    results = {}
    for layout in layouts:
        errors = suite.compile_all(every, options.jobs, kind_of(layout))
        results[layout] = run_layout(layout, every, errors, options)
    print("\n".join(table(every, results)))
    if ALONE not in results:
        results[ALONE] = read_results(ALONE)
    faults = list(judge(results, read_expectations()))
    print(f"\n{len(faults)} faults" + "".join(f"\n  {fault}" for fault in faults))
    return 1 if faults else 0


def run_layout(
    layout: str, every: Sequence[Case], errors: dict[str, str], options: Namespace
) -> dict[str, Result]:
    """Run each test on a layout; results of MPICH alone are those of an earlier run, if any."""
    kept = read_results(layout)

    def one(test: Case) -> Result:
        if error := errors.get(f"{test.folder}/{test.program}"):
            return Result(test.name, UNCOMPILED, error)
        if layout == ALONE and test.name in kept:
            return kept[test.name]
        clients = divided(layout.removeprefix(FRONT), test.procs)
        binary = suite.path(test.folder, test.program, kind_of(layout))
        ran = run_binary(
            binary,
            test.argv,
            clients,
            options.limit,
            dict(test.environ),
            cwd=str(binary.parent) if test.folder == SPAWNS else "",
        )
        result = outcome(test, ran)
        print(
            f"  {result.outcome:6}  {layout}  {test.name}  {ran.seconds:.1f} s  {result.note}",
            file=sys.stderr,
        )
        return result

    with ThreadPoolExecutor(options.jobs) as pool:
        try:
            found = {result.name: result for result in pool.map(one, every)}
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            end_all()
            raise
    RESULTS.mkdir(exist_ok=True)
    rows = [vars(result) for result in ({**kept, **found}).values()]
    (RESULTS / f"{layout}.json").write_text(json.dumps(rows, indent=1))
    return found


def kind_of(layout: str) -> str:
    """Return the compilation of the programs that a layout has."""
    return suite.OWN if layout.startswith(FRONT) else ""


def divided(layout: str, procs: int) -> str:
    """A layout of as many procs: ``mpich+openmpi`` of 3 is ``mpich:2,openmpi:1``."""
    if layout.startswith("own:"):
        return f"{layout}:{procs}"
    vendors = layout.split("+")[:procs]
    each, rest = divmod(procs, len(vendors))
    return ",".join(f"{vendor}:{each + (i < rest)}" for i, vendor in enumerate(vendors))


def outcome(test: Case, ran: Ran) -> Result:
    """Judge a job as the suite's own runtests does."""
    seconds = round(ran.seconds, 1)
    if ran.code is None:
        return Result(test.name, FAILED, "did not end in time", seconds)
    fatal = test.result in ("TestStatus", "TestErrFatal")
    if fatal:
        return Result(
            test.name,
            PASSED if ran.code else FAILED,
            "" if ran.code else "exit code 0",
            seconds,
        )
    said = re.search(r"^\s*No [Ee]rrors\s*$", ran.out, re.MULTILINE)
    if said and (ran.code == 0 or test.result == "TestStatusNoErrors"):
        return Result(test.name, PASSED, "", seconds)
    lines = [line for line in (ran.err + "\n" + ran.out).splitlines() if line.strip()]
    return Result(
        test.name,
        FAILED,
        f"exit code {ran.code}: {' | '.join(lines[:3])[:400]}",
        seconds,
    )


def read_results(layout: str) -> dict[str, Result]:
    """Return the findings of an earlier run."""
    path = RESULTS / f"{layout}.json"
    return (
        {row["name"]: Result(**row) for row in json.loads(path.read_text())}
        if path.exists()
        else {}
    )


def read_expectations(path: Path = EXPECTATIONS) -> list[Expected]:
    """The file's entries."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("expected", [])
    return [
        Expected(
            tuple(e["tests"]),
            e["reason"],
            tuple(e.get("layouts", ())),
            e.get("slow", False),
        )
        for e in entries
    ]


def judge(
    results: dict[str, dict[str, Result]], expected: Sequence[Expected]
) -> Iterator[str]:
    """Yield what is not as MPICH alone, or the file, has it."""
    alone = results.get(ALONE, {})
    for layout, found in results.items():
        for name, result in found.items():
            listed = next(
                (entry for entry in expected if entry.covers(name, layout)), None
            )
            if (
                result.outcome == PASSED
                and listed
                and not listed.slow
                and layout != ALONE
            ):
                yield f"{layout}  {name}: passes, and the list says that it does not: {listed.reason}"
            reference = alone[name].outcome == PASSED if name in alone else True
            if (
                result.outcome != PASSED
                and not listed
                and (reference or layout == ALONE)
            ):
                yield f"{layout}  {name}: {result.outcome}: {result.note}"


def table(
    every: Sequence[Case], results: dict[str, dict[str, Result]]
) -> Iterator[str]:
    """Yield a row for each folder: tests that passed on each layout."""
    layouts = list(results)
    yield f"\n{'folder':10}{'tests':>7}" + "".join(
        f"{layout:>16}" for layout in layouts
    )
    for folder in (*FOLDERS, "all"):
        mine = [test.name for test in every if folder in (test.folder, "all")]
        counts = [
            sum(results[layout][name].outcome == PASSED for name in mine)
            for layout in layouts
        ]
        yield f"{folder:10}{len(mine):7}" + "".join(f"{count:16}" for count in counts)
