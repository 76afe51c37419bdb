"""Earlier runs in ``runs/``: to resume one, to repeat failures, to estimate durations."""

from __future__ import annotations

import contextlib
import heapq
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from impi.base.errors import UsageError
from impi.base.files import MALFORMED
from impi.lab.cases import Case
from impi.lab.judge.verdict import Verdict
from impi.lab.plan.cell import Cell, parse_cell
from impi.lab.plan.matrix import Excluded, Plan
from impi.lab.report.folder.newest import LATEST, newest_run
from impi.lab.report.folder.own_files import read_program
from impi.lab.run.schedule import Attempt, Done

DEFAULT_S: Final = 2.5
"""Seconds for a cell without history: the mean in containers on an idle two-core machine."""
_LOOKED_AT: Final = 20
_RED: Final = ("fail", "timeout", "error", "flaky")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A run that is over, or was interrupted, or is under way."""

    path: Path
    # ``argv``, ``backend``, ``seed``, ``started``, ``builds``, ``shard``
    head: dict[str, Any]
    name: str  # as it was made; a copy of its folder may have another one
    source: str  # digest of the modules that were under test
    plan: Plan
    records: tuple[dict[str, Any], ...]  # finished cells, as in ``results.jsonl``
    own: Case | None = None  # the case of the user's program, where it was one

    def cell_of(self, text: str) -> Cell:
        """Return the cell with this id. UsageError: there is none."""
        return parse_cell(text, self.own)

    @property
    def dones(self) -> list[Done]:
        return [_done(record, self.own) for record in self.records]

    @property
    def left(self) -> list[Cell]:
        # A cell that has no line was not reached, whether the run was killed or interrupted.
        over = {record["id"] for record in self.records}
        return [cell for cell in self.plan.cells if cell.id not in over]

    @property
    def red(self) -> list[Cell]:
        """Cells that failed unexpectedly, and cells that the run did not reach."""
        bad = {record["id"] for record in self.records if record["result"] in _RED}
        return [cell for cell in self.plan.cells if cell.id in bad or cell in self.left]

    def before(self, cell: Cell) -> list[Cell]:
        """Return cells that ran in the deciding attempt's lab before it, in order, with repeats."""

        lab, found = "", list[Cell]()

        target = next((done for done in self.dones if done.cell == cell), None)
        if target is None or not target.attempts:
            return []

        # The lab that decided the cell is the one whose history may explain it.
        lab = target.attempts[target.deciding].lab
        for done in self.dones:
            # Earlier attempts of the cell itself count as well, if they had the
            # same lab.
            attempts = (
                done.attempts[: target.deciding] if done.cell == cell else done.attempts
            )

            found += [done.cell for attempt in attempts if attempt.lab == lab]
            if done.cell == cell:
                break

        return found if lab else []


def read_run(folder: Path, name: str = LATEST) -> EarlierRun:
    """Return a run of a folder of runs; without a name, the newest one.

    Raises:
        UsageError: there is none, or it cannot be read.
    """

    path = newest_run(folder) if name == LATEST else folder / name
    if path is None or not path.exists():
        missing = "no run yet" if name == LATEST else f"no run {name}"
        raise UsageError(f"there is {missing} in {folder}; 'impilab run' makes one")

    # The newest run is found by a link, which leads elsewhere after the next run.
    path = path.resolve()
    if not (path / "plan.json").is_file():
        raise UsageError(
            f"{path} is not a run: it has no plan.json; 'impilab ls runs' shows those of runs/"
        )

    try:
        value = json.loads((path / "plan.json").read_text("utf-8"))
        own = read_program(path, value)
        # A cell whose case is gone makes the run unreadable here, rather than shorter.
        cells = tuple(parse_cell(c["id"], own) for c in value["cells"])
        excluded = tuple(
            Excluded(parse_cell(e["id"], own), e["reason"], e["kind"])
            for e in value["excluded"]
        )
        found = EarlierRun(
            path=path,
            name=value["run"],
            own=own,
            head={
                **{key: value[key] for key in ("argv", "backend", "seed", "started")},
                **{key: value[key] for key in ("shard",) if key in value},
                "builds": value.get("builds", {}),
            },
            source=value["source"],
            plan=Plan(
                cells, excluded, value.get("shard", ""), tuple(value.get("whole", ()))
            ),
            records=tuple(_records(path / "results.jsonl")),
        )
        _ = found.dones, found.red  # told at once, while the wrong record can be named

        return found
    except (OSError, *MALFORMED, UsageError) as error:
        raise UsageError(
            f"run {path.name} cannot be read ({error}); start a new one"
        ) from None


def _records(path: Path) -> Iterable[dict[str, Any]]:
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        # a process may have died in the middle of its last line
        with contextlib.suppress(ValueError, RecursionError):
            yield json.loads(line)


def _done(record: Mapping[str, Any], own: Case | None) -> Done:
    def verdict(value: Mapping[str, Any]) -> Verdict:
        return Verdict(
            **{key: value[key] for key in ("outcome", "phase", "blame", "reason")}
        )

    attempts = tuple(
        Attempt(verdict=verdict(a), seconds=a["seconds"], lab=a.get("lab", ""))
        for a in record["attempts"]
    )
    mine = Verdict(
        **{
            key: record[key]
            for key in ("outcome", "phase", "blame", "reason", "self_reported")
        },
        unseen=tuple(record.get("unseen", ())),
    )

    return Done(cell=parse_cell(record["id"], own), verdict=mine, attempts=attempts)


def durations(folder: Path, backend: str) -> dict[str, float]:
    """Return seconds of an attempt by cell id, from the newest run on that backend with it."""
    found: dict[str, float] = {}
    for path in sorted(folder.glob("[0-9]*/results.json"), reverse=True)[:_LOOKED_AT]:
        with contextlib.suppress(OSError, *MALFORMED):
            value = json.loads(path.read_text("utf-8"))
            if value["backend"] == backend:
                for cell in value["cells"]:
                    if cell["attempts"]:
                        found.setdefault(
                            cell["id"], cell["seconds"] / len(cell["attempts"])
                        )

    return found


def expected_s(cells: Sequence[Cell], known: Mapping[str, float], jobs: int) -> float:
    """Return the expected seconds of the cells on ``jobs`` labs, in the scheduler's order."""

    labs: dict[object, float] = {}
    for cell in cells:
        labs[cell.lab] = labs.get(cell.lab, 0.0) + known.get(cell.id, DEFAULT_S)

    ends = [0.0] * jobs
    for seconds in sorted(labs.values(), reverse=True):
        heapq.heapreplace(ends, ends[0] + seconds)

    return max(ends)
