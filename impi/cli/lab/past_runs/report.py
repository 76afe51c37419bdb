"""Pages of a run, and two runs compared: ``impilab report``, ``serve``, ``diff``, ``publish``."""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError
from impi.base.exit_codes import ExitCode
from impi.base.units import MAX_PORT
from impi.cli.ending import Declared, Verbs, add_verb, show
from impi.cli.lab.select import EXIT_CODES, RUNS
from impi.lab.report.annotations import add_to_summary, changes_page, of_changes, of_run
from impi.lab.report.folder.newest import LATEST, newest_run
from impi.lab.report.pages.run_pages import MARKDOWN, read_results, write_pages
from impi.lab.report.pages.site import copy_run, publish
from impi.lab.report.results import Json
from impi.lab.report.run_diff import Change, as_json, compare

_RUN: Final = "a run: its name in --runs, or its folder"
_RUNS: Final[Declared] = {
    "--runs": {
        "type": Path,
        "default": RUNS,
        "metavar": "DIR",
        "help": "folder of the runs (default: runs)",
    },
}
_NEWEST: Final[Declared] = {
    "run": {
        "nargs": "?",
        "default": "latest",
        "metavar": "RUN",
        "help": f"{_RUN} (default: the newest)",
    },
}
_SHOWN: Final = ("worse", "better", "changed")
_CAPTURES: Final[Declared] = {
    "--captures": {
        "action": "store_true",
        "help": "also copy the captures of green cells, which are large",
    },
}
_GITHUB: Final[Declared] = {
    "--github": {
        "action": "store_true",
        "help": "in GitHub Actions, print annotations and write a part of the job's summary",
    },
}
_DIFF: Final = """
worse     red now and not before, or green before and not run now
better    green now and red before
changed   another result, neither better nor worse
new       only in the second run; --json names these cells
gone      only in the first run; --json names these cells

  impilab diff 20261121T083654-c321 latest
  impilab diff main/20261121T083654-c321 runs/latest --gate     exit code 1 if a cell is worse
"""


def add_report(verbs: Verbs) -> None:
    """Add the verbs to the command line of ``impilab``."""

    to: Declared = {
        "--to": {
            "type": Path,
            "metavar": "DIR",
            "help": "write a copy of the run to DIR, ready for a page host",
        }
    }
    add_verb(
        verbs,
        "report",
        _report,
        {**_NEWEST, **to, **_CAPTURES, **_GITHUB, **_RUNS},
        help="write the pages of a run: a matrix, and a page for each cell",
        epilog=EXIT_CODES,
    )
    port: Declared = {
        "--port": {
            "type": int,
            "default": 0,
            "metavar": "N",
            "help": "port to listen on, on 127.0.0.1 (default: any free one)",
        }
    }
    add_verb(
        verbs,
        "serve",
        _serve,
        {**_NEWEST, **port, **_RUNS},
        help="serve the pages of a run to browsers of this machine, also while it is under way",
        epilog=EXIT_CODES,
    )
    add_verb(
        verbs,
        "diff",
        _diff,
        {
            "before": {"metavar": "A", "help": _RUN},
            "after": {
                "nargs": "?",
                "default": "latest",
                "metavar": "B",
                "help": f"{_RUN} (default: the newest)",
            },
            "--gate": {
                "action": "store_true",
                "help": "exit code 1 if a cell is worse",
            },
            "--json": {"action": "store_true", "help": "as JSON"},
            **_GITHUB,
            **_RUNS,
        },
        help="compare two runs: cells with different results, the worse ones first",
        epilog=f"{_DIFF}\n{EXIT_CODES}",
    )
    add_verb(
        verbs,
        "publish",
        _publish,
        {
            "site": {"type": Path, "metavar": "DIR", "help": "the folder of a site"},
            **_NEWEST,
            **_CAPTURES,
            **_RUNS,
        },
        help="add a run to a site of static pages, with the history of its cells",
        epilog=EXIT_CODES,
    )


def _folder(options: argparse.Namespace, name: str) -> Path:
    """Return the folder of a run, given by its name or by a path."""
    inside: Path = options.runs / name
    if name == LATEST and (newest := newest_run(options.runs)) is not None:
        return (
            options.runs / newest.name
            if newest.parent == options.runs.resolve()
            else newest
        )

    return (
        # A run of that name in --runs comes first, and a folder where there is none.
        Path(name)
        if not inside.exists() and ("/" in name or Path(name).is_dir())
        else inside
    )


def _report(options: argparse.Namespace) -> int:
    folder = _folder(options, options.run)
    to: Path | None = options.to

    page = (
        copy_run(folder, to, captures=options.captures)
        if to is not None
        else write_pages(folder)
    )
    if options.github:
        show(of_run(read_results(folder)))
        add_to_summary(page.with_name(MARKDOWN).read_text("utf-8"))

    print(f"report {page}")

    return ExitCode.OK


def _serve(options: argparse.Namespace) -> int:
    # Other verbs need no web server.
    from impi.lab.report.live.server import RunServer

    if not 0 <= options.port <= MAX_PORT:
        raise UsageError(f"--port {options.port}: a number from 0 to {MAX_PORT}")

    server = RunServer(_folder(options, options.run), options.port)
    print(f"the page is {server.url}, until an interrupt (Ctrl-C)", flush=True)
    with contextlib.suppress(KeyboardInterrupt), server:
        server.serve()

    return ExitCode.OK


def _publish(options: argparse.Namespace) -> int:
    page = publish(
        _folder(options, options.run), options.site, captures=options.captures
    )
    print(f"site {page}")
    return ExitCode.OK


def _diff(options: argparse.Namespace) -> int:
    before, after = (
        read_results(_folder(options, name)) for name in (options.before, options.after)
    )
    changes = compare(before, after)

    value = as_json(before, after, changes)
    if options.json:
        print(json.dumps(value, indent=1))
    else:
        lines = [*_lines(before, after, changes, value["totals"])]

        show(lines)
        if options.github:
            show(of_changes(changes))
            add_to_summary(changes_page(lines))

    return ExitCode.FAILED if options.gate and value["totals"]["worse"] else ExitCode.OK


def _lines(
    before: Json, after: Json, changes: list[Change], totals: Mapping[str, int]
) -> Iterator[str]:
    width = max(
        (len(change.id) for change in changes if change.kind in _SHOWN), default=0
    )
    for change in (each for each in changes if each.kind in _SHOWN):
        how = f"{change.before or 'none'} -> {change.after or 'none'}"
        reason = " ".join(change.reason.split())
        yield f"{change.kind:<8} {how:<22} {change.id:<{width}}  {reason}".rstrip()

    if before["backend"] != after["backend"]:
        yield f"the backends differ, {before['backend']} and {after['backend']}, and so does the evidence of cells"

    told = (
        ", ".join(f"{count} {kind}" for kind, count in totals.items() if count)
        or "no result differs"
    )
    yield f"{before['run']} -> {after['run']}: {told}; {before['seconds']:.0f} s -> {after['seconds']:.0f} s"
