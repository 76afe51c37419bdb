"""``impilab report``, ``diff`` and ``publish``: what a run leaves, for people."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from impi.base.exit_codes import ExitCode
from impi.cli.ending import Declared, Verbs, add_verb, show
from impi.cli.lab.select import EXIT_CODES, RUNS
from impi.lab.report.pages.run_pages import read_results, write_pages
from impi.lab.report.pages.site import copy_run, publish
from impi.lab.report.results import Json
from impi.lab.report.run_diff import Change, as_json, compare

_RUN: Final = "a run: its name in --runs, or its folder"
_RUNS: Final[Declared] = {
    "--runs": {"type": Path, "default": RUNS, "metavar": "DIR", "help": "where the runs are (default: runs)"},
}
_NEWEST: Final[Declared] = {
    "run": {"nargs": "?", "default": "latest", "metavar": "RUN", "help": f"{_RUN} (default: the newest)"},
}
_SHOWN: Final = ("worse", "better", "changed")
_CAPTURES: Final[Declared] = {
    "--captures": {"action": "store_true", "help": "copy the captures of green cells, too, which are large"},
}
_DIFF: Final = """
worse     red now and not before, or green before and not tried now
better    green now and red before
changed   another result, neither better nor worse
new, gone only one of the runs has it; --json names them

  impilab diff 20261121T083654-c321 latest
  impilab diff main/20261121T083654-c321 runs/latest --gate     exit code 1 if a cell is worse
"""


def add_report(verbs: Verbs) -> None:
    """Add the verbs to the command line of ``impilab``."""
    to: Declared = {"--to": {"type": Path, "metavar": "DIR", "help": "into a copy, which a page host can take"}}
    add_verb(
        verbs,
        "report",
        _report,
        {**_NEWEST, **to, **_CAPTURES, **_RUNS},
        help="write the pages of a run: a matrix, and a page for each cell",
        epilog=EXIT_CODES,
    )
    add_verb(
        verbs,
        "diff",
        _diff,
        {
            "before": {"metavar": "A", "help": _RUN},
            "after": {"nargs": "?", "default": "latest", "metavar": "B", "help": f"{_RUN} (default: the newest)"},
            "--gate": {"action": "store_true", "help": "exit code 1 if a cell is worse"},
            "--json": {"action": "store_true", "help": "as JSON"},
            **_RUNS,
        },
        help="show which cells ended otherwise in another run, the worse ones first",
        epilog=f"{_DIFF}\n{EXIT_CODES}",
    )
    add_verb(
        verbs,
        "publish",
        _publish,
        {"site": {"type": Path, "metavar": "DIR", "help": "the folder of a site"}, **_NEWEST, **_CAPTURES, **_RUNS},
        help="add a run to a site of static pages, with the history of its cells",
        epilog=EXIT_CODES,
    )


def _folder(options: argparse.Namespace, name: str) -> Path:
    """The folder of a run that is named, or is given by its path."""
    inside: Path = options.runs / name
    return inside if inside.exists() or "/" not in name else Path(name)


def _report(options: argparse.Namespace) -> int:
    folder = _folder(options, options.run)
    to: Path | None = options.to
    page = copy_run(folder, to, captures=options.captures) if to is not None else write_pages(folder)
    print(f"report {page}")
    return ExitCode.OK


def _publish(options: argparse.Namespace) -> int:
    page = publish(_folder(options, options.run), options.site, captures=options.captures)
    print(f"site {page}")
    return ExitCode.OK


def _diff(options: argparse.Namespace) -> int:
    before, after = (read_results(_folder(options, name)) for name in (options.before, options.after))
    changes = compare(before, after)
    value = as_json(before, after, changes)
    if options.json:
        print(json.dumps(value, indent=1))
    else:
        show(_lines(before, after, changes, value["totals"]))
    return ExitCode.FAILED if options.gate and value["totals"]["worse"] else ExitCode.OK


def _lines(before: Json, after: Json, changes: list[Change], totals: Mapping[str, int]) -> Iterator[str]:
    width = max((len(change.id) for change in changes if change.kind in _SHOWN), default=0)
    for change in (each for each in changes if each.kind in _SHOWN):
        how = f"{change.before or 'none'} -> {change.after or 'none'}"
        reason = " ".join(change.reason.split())
        yield f"{change.kind:<8} {how:<22} {change.id:<{width}}  {reason}".rstrip()
    if before["backend"] != after["backend"]:
        yield f"the backends differ, {before['backend']} and {after['backend']}: what is seen of a cell differs, too"
    told = ", ".join(f"{count} {kind}" for kind, count in totals.items() if count) or "no cell ended otherwise"
    yield f"{before['run']} -> {after['run']}: {told}; {before['seconds']:.0f} s -> {after['seconds']:.0f} s"
