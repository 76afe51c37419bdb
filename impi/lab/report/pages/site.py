"""Copies of runs for a page host, and the history of their cells."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from impi.base.errors import LabError, UsageError
from impi.lab.nodes.interface import ON_HOSTS
from impi.lab.report.evidence_files import read_evidence
from impi.lab.report.folder.sanitize import NAMES, Sanitizer, hosts_of
from impi.lab.report.pages.badge import badges
from impi.lab.report.pages.run_pages import (
    PAGE,
    read_results,
    render,
    write_pages,
    write_statics,
)
from impi.lab.report.pages.views import CellView, RunView
from impi.lab.report.results import GREEN, RED

_SHOWN: Final = 30
_LEFT: Final = (
    "plan.json",
    "results.jsonl",
    "invitations",
    "repro",
    "program",
    "references",
    NAMES,
)
"""Files of a run's folder that a copy does not need, or must not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """A cell over several runs."""

    id: str
    cells: Sequence[tuple[RunView, CellView | None]]

    @property
    def seen(self) -> list[CellView]:
        return [
            cell
            for _, cell in self.cells
            if cell is not None and cell.result in (*GREEN, *RED)
        ]

    @property
    def of(self) -> int:
        return len(self.seen)

    @property
    def bad(self) -> int:
        return sum(cell.is_red for cell in self.seen)

    @property
    def flaky(self) -> int:
        """Number of chance failures: red at some attempts only, or red once between two passes."""
        seen, found = self.seen, 0
        for i, cell in enumerate(seen):
            around = [each.is_red for each in seen[i - 1 : i + 2]] if i else []
            found += cell.result == "flaky" or around == [False, True, False]

        return found

    def to_json(self) -> dict[str, object]:
        """Its numbers; ``now`` is its newest result."""
        return {
            "id": self.id,
            "runs": self.of,
            "red": self.bad,
            "flaky": self.flaky,
            "now": self.seen[0].result,
        }


def copy_run(
    run: Path, to: Path, *, captures: bool = False, history: bool = False
) -> Path:
    """Copy a run without names of its machine, and write its pages there; return the first page.

    ``captures``: also those of cells that are not red, which are most of a run's octets. Captures
    are copied as they are.

    Raises:
        UsageError: there is no such run, or the folder is there already.
        LabError: it cannot be written.
    """

    red = {cell.folder for cell in RunView(read_results(run)).red}
    run = run.resolve()

    def left_out(folder: str, names: list[str]) -> list[str]:
        where = Path(folder).relative_to(run)
        if where == Path():
            return [name for name in names if name in _LEFT]

        keep = captures or any(Path(cell) in (where, *where.parents) for cell in red)

        return (
            []
            if keep
            else [name for name in names if name.endswith((".pcap", ".pcapng"))]
        )

    if to.exists():
        raise UsageError(f"{to} exists already: name a folder that does not exist")

    try:
        shutil.copytree(run, to, ignore=left_out)
        sanitizer(run).tree(to)
    except (OSError, shutil.Error) as error:
        raise LabError(f"{run} cannot be copied to {to}: {error}") from error

    return write_pages(to, history=history)


def sanitizer(run: Path) -> Sanitizer:
    """Return what removes the names of a run: those of its machine, and of hosts that it ran on."""

    results = read_results(run)

    more: dict[str, str] = {}
    for record in results["cells"] if results["backend"].startswith(ON_HOSTS) else ():
        more |= hosts_of(read_evidence(run, record), record["unseen"])

    return Sanitizer.of(run, more)


def publish(run: Path, site: Path, *, captures: bool = False) -> Path:
    """Add a run to the folder of a site; return the page with the history of its cells.

    A run that is there already is replaced.

    Raises:
        UsageError: there is no such run.
        LabError: it cannot be written.
    """

    name = RunView(read_results(run)).name

    new = site / f".{name}"
    try:
        for old in (new, site / name):
            if old.is_dir():
                shutil.rmtree(old)
    except OSError as error:
        raise LabError(
            f"{site / name} cannot be replaced: {error.strerror}; name a folder that you can write"
        ) from error

    copy_run(run, new, captures=captures, history=True)
    try:
        new.rename(site / name)
        runs = [
            RunView(read_results(path.parent))
            for path in site.glob("[!.]*/results.json")
        ]
        runs.sort(key=lambda each: str(each.value["started"]), reverse=True)
        write_statics(site)
        page = site / PAGE
        rows, green = _rows(runs[:_SHOWN])
        page.write_text(
            render(
                "history.html",
                runs=runs,
                shown=runs[:_SHOWN],
                rows=rows,
                green=green,
                root="",
            ),
            "utf-8",
        )
        _write_numbers(site, runs, rows)
    except OSError as error:
        raise LabError(
            f"the site {site} cannot be written: {error.strerror}"
        ) from error

    return page


def _write_numbers(
    site: Path, runs: Sequence[RunView], rows: Sequence[HistoryRow]
) -> None:
    """Write what programs read of a site: the history of red cells, and badges."""

    names = [run.name for run in runs[:_SHOWN]]
    value = {
        "schema": "impilab/history/1",
        "runs": names,
        "cells": [row.to_json() for row in rows],
    }

    (site / "history.json").write_text(json.dumps(value, indent=1) + "\n", "utf-8")
    for badge in badges(runs):
        (site / f"{badge.name}.svg").write_text(badge.to_svg(render), "utf-8")
        (site / f"{badge.name}.json").write_text(
            json.dumps(badge.to_json()) + "\n", "utf-8"
        )


def _rows(shown: Sequence[RunView]) -> tuple[list[HistoryRow], int]:
    """Return the cells that were red in one of the runs, and how many never were."""

    by_id = [{cell.id: cell for cell in run.cells} for run in shown]
    ids = sorted({cell for cells in by_id for cell in cells})
    rows = [
        HistoryRow(
            id=cell,
            cells=[
                (run, cells.get(cell)) for run, cells in zip(shown, by_id, strict=True)
            ],
        )
        for cell in ids
    ]
    bad = [row for row in rows if row.bad]
    # Cells that are red now come first, then those that were red most often.
    bad.sort(key=lambda row: (not row.seen[0].is_red, -row.bad / row.of, row.id))

    return bad, sum(row.of > 0 and not row.bad for row in rows)
