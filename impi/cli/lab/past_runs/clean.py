"""``impilab clean``: removes rests of labs, and runs that are old."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError, refuse
from impi.cli.ending import JSON, Verbs, add_verb, show, show_rows
from impi.cli.lab.keep import seconds
from impi.cli.lab.select import BACKEND, RUNS
from impi.lab.backends.lifecycle.cleanup import Choice, clean
from impi.lab.report.keeping.old_runs import rule, tidy_runs

_LABELS: Final = ("run", "lab", "name", "user", "parties", "topology")
_EPILOG: Final = f"""
Labs of live runs are spared. So are labs that 'up' or --keep left, until their time is over. Each option that you
give narrows the choice. Labels are {", ".join(_LABELS)}:
  impilab clean --label run=20261121T083654-c321
  impilab clean --label parties=mpich+openmpi --older-than 2h
  impilab clean --owner alice                        labs that this user's processes left
  impilab clean --runs                               old runs, as 'impilab run' does at its end; a file 'keep' in a run
                                                     protects it
"""


def add_clean(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impilab``."""
    add_verb(
        verbs,
        "clean",
        _clean,
        {
            "--label": {
                "action": "append",
                "default": [],
                "metavar": "NAME[=VALUE]",
                "help": "only labs with that label",
            },
            "--older-than": {
                "metavar": "TIME",
                "help": "only labs of that age or older, such as 90s, 15m, 2h, 1d",
            },
            "--owner": {
                "default": "",
                "metavar": "WHO",
                "help": "only labs of a user, or of a process by its number",
            },
            "--all": {
                "action": "store_true",
                "help": "also labs of live runs; with --runs, all runs but the newest",
            },
            "--runs": {
                "nargs": "?",
                "type": Path,
                "const": RUNS,
                "metavar": "DIR",
                "help": f"old runs, instead of labs: {rule()}",
            },
            **JSON,
            **BACKEND,
        },
        help="remove what earlier runs left behind; live runs are spared",
        epilog=_EPILOG,
    )


def _clean_runs(options: argparse.Namespace) -> int:
    refuse(
        (
            options.label or options.older_than or options.owner,
            "--runs is about runs, the other options about labs",
        ),
        (
            options.runs != RUNS and not options.runs.is_dir(),
            f"--runs {options.runs}: there is no such folder; name the one that has the runs",
        ),
    )
    tidied = tidy_runs(options.runs, 1, 1) if options.all else tidy_runs(options.runs)
    if options.json:
        show_rows("removed", ({"what": f"run {name}"} for name in tidied.runs))
        return 0

    show(f"removed run {name}" for name in tidied.runs)
    print(tidied.sentence or "nothing removed: " + rule())

    return 0


def _clean(options: argparse.Namespace) -> int:
    if options.runs is not None:
        return _clean_runs(options)

    labels: dict[str, str | None] = {}
    for text in options.label:
        name, equals, value = text.partition("=")
        if name not in _LABELS or (equals and not value):
            raise UsageError(
                f"--label {text}: write NAME or NAME=VALUE, with a name of {', '.join(_LABELS)}"
            )

        # Without a value the label itself is enough.
        labels[name] = value if equals else None

    age_s = (
        seconds("--older-than", options.older_than)
        if options.older_than is not None
        else 0.0
    )
    choice = Choice(
        older_than_s=age_s, labels=labels, owner=options.owner, everything=options.all
    )

    removed = clean(options.choose(options.backend).inventory, choice)
    if options.json:
        show_rows("removed", ({"what": str(name)} for name in removed))
        return 0

    for name in removed:
        print(f"removed {name}")

    print(f"{len(removed)} removed")

    return 0
