"""Copies of runs for a page host, and the history of their cells."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from impi.base.errors import LabError, UsageError
from impi.lab.report.pages.run_pages import PAGE, read_results, render, write_pages, write_statics
from impi.lab.report.pages.views import CellView, RunView
from impi.lab.report.results import GREEN, RED

_SHOWN: Final = 30
_LEFT: Final = ("plan.json", "results.jsonl", "invitations", "repro")
"""What a copy does not need of a run's folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """A cell over runs."""

    id: str
    cells: Sequence[tuple[RunView, CellView | None]]

    @property
    def seen(self) -> list[CellView]:
        return [cell for _, cell in self.cells if cell is not None and cell.result in (*GREEN, *RED)]

    @property
    def of(self) -> int:
        return len(self.seen)

    @property
    def bad(self) -> int:
        return sum(cell.is_red for cell in self.seen)


def copy_run(run: Path, to: Path, *, captures: bool = False, history: bool = False) -> Path:
    """Copy a run and write its pages there; return the first page.

    ``captures``: also those of cells that are not red, which are most of a run's octets.

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
        return [] if keep else [name for name in names if name.endswith((".pcap", ".pcapng"))]

    if to.exists():
        raise UsageError(f"{to} is there already: name a folder that does not exist")
    try:
        shutil.copytree(run, to, ignore=left_out)
    except (OSError, shutil.Error) as error:
        raise LabError(f"{run} cannot be copied to {to}: {error}") from error
    return write_pages(to, history=history)


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
        raise LabError(f"{site / name} cannot be replaced: {error.strerror}") from error
    copy_run(run, new, captures=captures, history=True)
    try:
        new.rename(site / name)
        runs = [RunView(read_results(path.parent)) for path in site.glob("[!.]*/results.json")]
        runs.sort(key=lambda each: str(each.value["started"]), reverse=True)
        write_statics(site)
        page = site / PAGE
        page.write_text(_history(runs), "utf-8")
    except OSError as error:
        raise LabError(f"the site {site} cannot be written: {error.strerror}") from error
    return page


def _history(runs: Sequence[RunView]) -> str:
    shown = runs[:_SHOWN]
    by_id = [{cell.id: cell for cell in run.cells} for run in shown]
    ids = sorted({cell for cells in by_id for cell in cells})
    rows = [
        HistoryRow(id=cell, cells=[(run, cells.get(cell)) for run, cells in zip(shown, by_id, strict=True)])
        for cell in ids
    ]
    bad = [row for row in rows if row.bad]
    # Red now comes first; then what was red most often.
    bad.sort(key=lambda row: (not row.seen[0].is_red, -row.bad / row.of, row.id))
    green = sum(row.of > 0 and not row.bad for row in rows)
    return render("history.html", runs=runs, shown=shown, rows=bad, green=green, root="")
