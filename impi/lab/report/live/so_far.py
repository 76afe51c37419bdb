"""The results of a run until now, in the form of ``results.json``."""

from __future__ import annotations

import time
from pathlib import Path

from impi.base.errors import UsageError
from impi.lab.report.history import read_run
from impi.lab.report.pages.run_pages import read_results
from impi.lab.report.results import Json, bare_record, shown_time

RESULTS = "results.json"
GROWING = "results.jsonl"
_TO_COME = "not run yet"


def results_so_far(folder: Path) -> Json:
    """Return the results of a run; if it is not over, cells to come are skipped.

    Raises:
        UsageError: there is no such run, or it cannot be read.
    """
    if not folder.is_dir():
        raise UsageError(f"there is no run {folder}; 'impilab ls runs' shows them")

    if (folder / RESULTS).exists():
        return read_results(folder)

    run = read_run(folder.parent, folder.name)
    excluded = [
        bare_record(each.cell, "unsupported", each.reason)
        for each in run.plan.excluded
        if each.kind == "unsupported"
    ]
    to_come = [bare_record(cell, "skipped", _TO_COME) for cell in run.left]
    ended = (folder / GROWING).stat().st_mtime if run.records else time.time()

    return {
        "run": run.name,
        **run.head,
        "started": shown_time(run.head["started"]),
        "seconds": max(0.0, ended - run.head["started"]),
        "expectations": [],
        "software": {},
        "cells": [*run.records, *excluded, *to_come],
    }


def state_of(folder: Path) -> str:
    """Return a text that changes with the results, and only then."""
    found = []
    for name in (RESULTS, GROWING):
        try:
            seen = (folder / name).stat()
        except FileNotFoundError:
            continue

        found.append(f"{name}-{seen.st_mtime_ns}-{seen.st_size}")

    return " ".join(found)
