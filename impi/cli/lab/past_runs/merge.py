"""``impilab merge``: one run of the shards of a plan."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console

from impi.base.errors import UsageError
from impi.cli.ending import Declared, Verbs, add_verb
from impi.cli.lab.select import EXIT_CODES, RUNS, expectations_of
from impi.lab.judge.expectations import DEFAULT_FILE
from impi.lab.plan.cell import Cell
from impi.lab.plan.matrix import Plan
from impi.lab.plan.shard import parse_shard
from impi.lab.report.conclusion import Conclusion, explained
from impi.lab.report.history import EarlierRun, read_run
from impi.lab.report.results import RunFolder

_OPTIONS: Final[Declared] = {
    "shards": {
        "nargs": "+",
        "type": Path,
        "metavar": "DIR",
        "help": "folders of the runs, or a folder that contains them",
    },
    "--runs": {
        "type": Path,
        "default": RUNS,
        "metavar": "DIR",
        "help": "folder for the new run (default: runs)",
    },
    "--expect": {
        "type": Path,
        "metavar": "FILE",
        "help": f"file of known failures (default: {DEFAULT_FILE})",
    },
}
_EPILOG: Final = """
  impilab run --tier pairs --shard 1/3        on one machine, 2/3 and 3/3 on others
  impilab merge artifacts                     the folders of the three, anywhere below this folder

The exit code is that of one run of all cells. If a shard is missing or did not end, its cells are 'skipped': a cell
that was not run never counts as green.
"""


def add_merge(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impilab``."""
    text = "join the runs of 'impilab run --shard' into one run"
    add_verb(
        verbs, "merge", _merge, _OPTIONS, help=text, epilog=f"{_EPILOG}\n{EXIT_CODES}"
    )


def _merge(options: argparse.Namespace) -> int:
    found = [read_run(path.parent, path.name) for path in _folders(options.shards)]
    # Archives make of the link 'latest' a folder with the same run.
    shards = [*{(run.name, run.plan.shard): run for run in found}.values()]
    missing = _check(shards)
    first = shards[0]
    options.prove_unsupported = "--prove-unsupported" in first.head["argv"]
    expectations = expectations_of(options)
    plan = _plan(shards)

    folder = RunFolder.create(
        options.runs,
        plan,
        argv=_without_shard(first.head["argv"]),
        backend=first.head["backend"],
        seed=first.head["seed"],
        builds=first.head["builds"],
    )
    with contextlib.closing(folder):
        for shard in shards:
            folder.adopt(shard.path, shard.records)

        results = [
            explained(done, expectations) for shard in shards for done in shard.dones
        ]
        folder.restate(results)
        why = (
            f"no results of shard {', '.join(missing)} are here"
            if missing
            else "its shard did not come to it"
        )
        console = Console()
        console.print(
            f"run {folder.name} of {len(shards)} shards",
            highlight=False,
            soft_wrap=True,
        )
        conclusion = Conclusion(plan, folder, results, expectations, missing=why)
        conclusion.show(console)

        return conclusion.code


def _folders(named: Sequence[Path]) -> list[Path]:
    """Return the folders of the runs that are named, or are below those that are."""
    found: dict[Path, None] = {}
    for path in named:
        if not path.is_dir():
            raise UsageError(
                f"there is no folder {path}: name those that 'impilab run --shard' has written"
            )

        here = (
            [path]
            if (path / "plan.json").exists()
            else sorted(plan.parent for plan in path.rglob("plan.json"))
        )

        # 'impilab repro' leaves its runs below another run; links are not followed.
        runs = [each for each in here if "repro" not in each.relative_to(path).parts]
        if not runs:
            raise UsageError(
                f"{path} has no run in it: name folders that 'impilab run --shard' has written"
            )

        found |= dict.fromkeys(each.resolve() for each in runs)

    return [*found]


def _check(shards: Sequence[EarlierRun]) -> list[str]:
    """Return which shards are missing. UsageError: these are not the shards of one run."""

    # Whatever one run has in common for all of its cells, these must have in common, too.
    _alike(shards, "of different code", lambda run: run.source)
    _alike(shards, "of different backends", lambda run: run.head["backend"])

    _alike(shards, "of different builds", lambda run: run.head["builds"])
    for run in shards:
        if not run.plan.shard:
            raise UsageError(
                f"run {run.path} is not a shard: it was made without --shard"
            )

    counts = {parse_shard(run.plan.shard).count for run in shards}
    if len(counts) > 1:
        raise UsageError(
            f"these are shards of {' and of '.join(map(str, sorted(counts)))}: name those of one run"
        )

    _alike(shards, "of different plans", lambda run: run.plan.whole)

    by_shard: dict[str, EarlierRun] = {}
    for run in shards:
        if (other := by_shard.setdefault(run.plan.shard, run)) is not run:
            raise UsageError(
                f"shard {run.plan.shard} is here twice: {other.path} and {run.path}; leave one out"
            )

    [count] = counts

    return [
        f"{i}/{count}" for i in range(1, count + 1) if f"{i}/{count}" not in by_shard
    ]


def _alike(
    shards: Sequence[EarlierRun], fault: str, part: Callable[[EarlierRun], object]
) -> None:
    for run in shards[1:]:
        if part(run) != part(shards[0]):
            raise UsageError(
                f"{shards[0].path} and {run.path} are runs {fault}: they cannot be merged"
            )


def _plan(shards: Sequence[EarlierRun]) -> Plan:
    there = [cell for shard in shards for cell in shard.plan.cells]
    # Cells of missing shards stay in the plan, and count as skipped.
    lost = set(shards[0].plan.whole) - {cell.id for cell in there}
    excluded = tuple(each for shard in shards for each in shard.plan.excluded)

    return Plan((*there, *_cells(lost, shards[0])), excluded)


def _cells(ids: set[str], run: EarlierRun) -> Iterator[Cell]:
    for each in sorted(ids):
        yield run.cell_of(each)


def _without_shard(argv: Sequence[str]) -> list[str]:
    found, skip = [], False
    for word in argv:
        # The word after the option is its value, and goes with it.
        if skip or word == "--shard":
            skip = not skip
        elif not word.startswith("--shard="):
            found.append(word)

    return found
