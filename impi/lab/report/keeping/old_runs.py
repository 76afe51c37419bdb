"""The rule for old runs: the newest stay whole, of older ones only cells that did not pass.

A run that is under way, the newest one, one with a file ``keep`` in its folder, and what has
another name than a run's stay in any case.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from impi.base.errors import ImpiError
from impi.base.files import MALFORMED
from impi.lab.report.pages.run_pages import write_pages

WHOLE: Final = 10
"""Number of runs that stay whole."""
RED: Final = 50
"""Number of runs whose cells stay if they did not pass."""
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}-[0-9a-f]{4}")
_KEEP: Final = "keep"
_STAYS: Final = ("cell.json", "index.html")  # of a cell that passed in an older run
_GREEN: Final = ("pass", "xfail")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tidied:
    """The runs and cells that were removed, and their size."""

    runs: tuple[str, ...] = ()  # whole runs
    cells: int = 0  # cells that passed, of runs that are there
    octets: int = 0

    @property
    def sentence(self) -> str:
        """The removal, as half a sentence; empty if nothing was removed."""
        what = [f"{len(self.runs)} runs"] * bool(self.runs) + [
            f"files of {self.cells} green cells"
        ] * bool(self.cells)
        return (
            f"{' and '.join(what)} removed, {self.octets / 1e6:.1f} MB" if what else ""
        )


def rule(whole: int = WHOLE) -> str:
    """Return the rule in words."""
    return f"the last {whole} runs stay whole, red cells of the last {max(RED, whole)}"


def tidy_runs(folder: Path, whole: int = WHOLE, red: int = RED) -> Tidied:
    """Remove what the rule does not keep of the runs in a folder.

    What cannot be removed stays, and the next run tries again.

    Args:
        folder: of the runs.
        whole: number of runs that stay whole; 0: all.
        red: number of runs whose cells stay if they did not pass.
    """

    removed, cells, octets = list[str](), 0, 0

    runs = _runs(folder) if whole > 0 else []
    for number, run in enumerate(runs):
        if number < whole or not _is_free(run):
            continue

        if number >= max(red, whole):
            octets += _remove(run)
            removed.append(run.name)
            continue

        green = [path for path in _passed_folders(run) if path.is_dir() and _rest(path)]
        for cell in green:
            octets += sum(map(_remove, _rest(cell)))

        cells += len(green)
        if green:
            # The pages of a run that was killed are none
            with contextlib.suppress(ImpiError):
                write_pages(run)

    return Tidied(runs=tuple(removed), cells=cells, octets=octets)


def _runs(folder: Path) -> list[Path]:
    """The runs of a folder, the newest first."""

    latest = folder / "latest"

    newest = latest.resolve() if latest.is_symlink() else None
    with contextlib.suppress(OSError):
        found = [
            path
            for path in folder.iterdir()
            if _NAME.fullmatch(path.name) and not path.is_symlink()
        ]
        found = [path for path in found if (path / "plan.json").is_file()]
        # Their names begin with the time.
        return sorted(
            found, key=lambda path: (path.resolve() == newest, path.name), reverse=True
        )

    return []


def _is_free(run: Path) -> bool:
    """Whether no process works in the run, and the user has not asked to keep it."""

    if (run / _KEEP).exists():
        return False

    try:
        lock = os.open(run, os.O_RDONLY)
    except OSError:
        return False

    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)

    return True


def _passed_folders(run: Path) -> Iterator[Path]:
    """The folders of the cells that passed, or failed as expected."""
    with contextlib.suppress(OSError, *MALFORMED):
        for line in (run / "results.jsonl").read_text("utf-8").splitlines():
            with contextlib.suppress(*MALFORMED):
                record = json.loads(line)
                if record["result"] in _GREEN and re.fullmatch(
                    r"[0-9a-f]{7}", record["hash"]
                ):
                    yield run / "cells" / record["hash"]


def _rest(cell: Path) -> list[Path]:
    return [path for path in cell.iterdir() if path.name not in _STAYS]


def _remove(path: Path) -> int:
    """Remove a file or a folder; return how many octets it had."""
    octets = _size(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()

    return octets


def _size(path: Path) -> int:
    found = 0
    with contextlib.suppress(OSError):
        inside = path.rglob("*") if path.is_dir() and not path.is_symlink() else [path]
        for each in inside:
            with contextlib.suppress(OSError):
                found += each.lstat().st_size

    return found
