"""``impilab expect``: show, check and rewrite the file of known failures."""

from __future__ import annotations

import argparse
import datetime
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final, TypedDict

from impi.base.errors import LabError, UsageError
from impi.base.manifests import project_file
from impi.cli.ending import JSON, Verbs, add_verb, show, show_rows
from impi.cli.lab.select import EXIT_CODES, RUNS
from impi.lab.judge.expectations import DEFAULT_FILE, Expectations, check_issue, load
from impi.lab.report.folder.newest import LATEST, newest_run
from impi.lab.report.history import read_run
from impi.lab.report.upkeep import check_rows, update
from impi.lab.run.schedule import Done

_STALE: Final = 6
_DAYS: Final = 90
_EPILOG: Final = """
  show      every row, the cells that it names, and their results in the newest run
  lint      rows that are wrong, have expired or name no cell
  update    adapt the file to a run: remove rows that no longer hold, add rows for failures without one
"""


def add_expect(verbs: Verbs) -> None:
    """Add the verb to the command line of ``impilab``."""
    add_verb(
        verbs,
        "expect",
        _expect,
        {
            "what": {"choices": ("show", "lint", "update")},
            "--expect": {
                "type": Path,
                "metavar": "FILE",
                "help": f"file of known failures (default: {DEFAULT_FILE})",
            },
            "--runs": {
                "type": Path,
                "default": RUNS,
                "metavar": "DIR",
                "help": "folder of the runs (default: runs)",
            },
            "--from": {
                "dest": "run",
                "default": "latest",
                "metavar": "RUN",
                "help": "for show and update, the run (default: the newest)",
            },
            "--issue": {
                "metavar": "URL",
                "help": "for update, the issue that tracks the new rows",
            },
            "--until": {
                "metavar": "DATE",
                "help": f"for update, the day on which the new rows expire, as 2027-03-01 (default: in {_DAYS} days)",
            },
            **JSON,
        },
        help="show, check or update the file of known failures",
        epilog=f"{_EPILOG}\n{EXIT_CODES}",
    )


def _expect(options: argparse.Namespace) -> int:
    verbs: dict[str, Callable[[argparse.Namespace], int]] = {
        "show": _show,
        "lint": _lint,
        "update": _update,
    }
    # An update writes, so it goes to this folder, and never to the
    # file that is installed with impi.
    if options.expect is None:
        options.expect = (
            DEFAULT_FILE
            if options.what == "update"
            else project_file(str(DEFAULT_FILE))
        )

    return verbs[options.what](options)


class _ShownRow(TypedDict):
    number: int
    cells: list[str]
    result: str
    phase: str
    reason: str
    issue: str
    until: str
    days: int
    named: int
    ran: dict[str, int]


def _show(options: argparse.Namespace) -> int:
    expectations = load(options.expect)

    # Without any run the rows themselves are shown.
    dones = (
        _dones(options)
        if options.run != LATEST or newest_run(options.runs) is not None
        else []
    )
    rows = _rows(expectations, dones)
    if options.json:
        show_rows("expectations", rows)
        return 0

    for row, value in zip(expectations.rows, rows, strict=True):
        days = value["days"]
        when = (
            f"until {row.until} ({days} days)"
            if days >= 0
            else f"expired on {row.until}"
        )
        phase = f" in {row.phase}" if row.phase else ""
        reason = f" because of {row.reason!r}" if row.reason else ""
        print(f"{row}: {row.result}{phase}{reason}, {when}, {row.issue}")
        ran = ", ".join(f"{count} {result}" for result, count in value["ran"].items())
        print(
            f"    names {value['named']} cells of --tier full; in the run: {ran or 'none of them'}"
        )

    print(f"{options.expect}: {len(expectations.rows)} rows")

    return 0


def _rows(expectations: Expectations, dones: list[Done]) -> Iterator[_ShownRow]:
    """Yield each row with the cells that it names, and their results in a run."""
    for row in expectations.rows:
        mine = [
            replace(d, row=expectations.find(d.cell, d.verdict))
            for d in dones
            if row.names(d.cell)
        ]
        yield {
            "number": row.number,
            "cells": list(row.cells),
            "result": row.result,
            "phase": row.phase,
            "reason": row.reason,
            "issue": row.issue,
            "until": str(row.until),
            "days": (row.until - datetime.date.today()).days,
            "named": len(row.named()),
            "ran": dict(Counter(done.result for done in mine)),
        }


def _lint(options: argparse.Namespace) -> int:
    expectations = load(options.expect)
    problems = check_rows(expectations, datetime.date.today())
    if options.json:
        show_rows("problems", ({"problem": text} for text in problems))
    else:
        show(problems)
        print(
            f"{options.expect}: {len(expectations.rows)} rows, {len(problems)} problems"
        )

    return _STALE if problems else 0


def _update(options: argparse.Namespace) -> int:
    issue = check_issue(options.issue) if options.issue is not None else ""
    until = _date(options.until) if options.until is not None else _in_days(_DAYS)
    path: Path = options.expect
    expectations = load(path) if path.exists() else Expectations(path)
    text = path.read_text("utf-8") if path.exists() else ""

    updated = update(text, expectations, _dones(options), issue=issue, until=until)
    if updated.changes:
        _replace(path, updated.text)

    if options.json:
        show_rows("changes", ({"change": text} for text in updated.changes))
    else:
        show(updated.changes)
        print(f"{path}: {len(updated.changes)} changes")

    return 0


def _dones(options: argparse.Namespace) -> list[Done]:
    return read_run(options.runs, options.run).dones


def _in_days(days: int) -> datetime.date:
    return datetime.date.today() + datetime.timedelta(days=days)


def _date(text: str) -> datetime.date:
    try:
        found = datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--until {text}: write a date such as {_in_days(_DAYS)}"
        ) from None

    if found < datetime.date.today():
        raise UsageError(f"--until {text} is over already; write a date to come")

    return found


def _replace(path: Path, text: str) -> None:
    """Write the file atomically, and only if the new text can be loaded."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)

        temporary = Path(name)
        try:
            load(temporary)
            temporary.chmod(path.stat().st_mode if path.exists() else 0o644)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise LabError(
            f"expectations {path} cannot be written: {error.strerror}"
        ) from error
