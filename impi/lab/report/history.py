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
from impi.lab.judge.verdict import Verdict
from impi.lab.plan.cell import Cell, parse_cell
from impi.lab.plan.matrix import Excluded, Plan
from impi.lab.run.schedule import Attempt, Done

DEFAULT_S: Final = 2.5
"""Seconds for a cell without history: the mean in containers on an idle two-core machine."""
_HEAD: Final = ("argv", "backend", "seed", "started", "builds")
_LOOKED_AT: Final = 20
_RED: Final = ("fail", "timeout", "error", "flaky")


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRun:
    """A run that is over, or was interrupted, or is under way."""

    path: Path
    head: dict[str, Any]  # ``argv``, ``backend``, ``seed``, ``started`` and ``builds``
    source: str  # digest of the modules that were under test
    plan: Plan
    records: tuple[dict[str, Any], ...]  # finished cells, as in ``results.jsonl``

    @property
    def dones(self) -> list[Done]:
        return [_done(record) for record in self.records]

    @property
    def left(self) -> list[Cell]:
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
        lab = target.attempts[target.deciding].lab
        for done in self.dones:
            attempts = done.attempts[: target.deciding] if done.cell == cell else done.attempts
            found += [done.cell for attempt in attempts if attempt.lab == lab]
            if done.cell == cell:
                break
        return found if lab else []


def read_run(folder: Path, name: str = "latest") -> EarlierRun:
    """A run of a folder of runs; the newest one unless it is named.

    Raises:
        UsageError: there is none, or it cannot be read.
    """
    path = folder / name
    if not path.exists():
        missing = "no run yet" if name == "latest" else f"no run {name}"
        raise UsageError(f"there is {missing} in {folder}; 'impilab run' makes one")
    path = path.resolve()
    try:
        value = json.loads((path / "plan.json").read_text())
        cells = tuple(parse_cell(c["id"]) for c in value["cells"])
        excluded = tuple(Excluded(parse_cell(e["id"]), e["reason"], e["kind"]) for e in value["excluded"])
        found = EarlierRun(
            path=path,
            head={
                **{key: value[key] for key in ("argv", "backend", "seed", "started")},
                "builds": value.get("builds", {}),
            },
            source=value["source"],
            plan=Plan(cells, excluded),
            records=tuple(_records(path / "results.jsonl")),
        )
        _ = found.dones, found.red  # now, where a wrong record can be told
        return found
    except (OSError, *MALFORMED, UsageError) as error:
        raise UsageError(f"run {path.name} cannot be read ({error}); start a new one") from None


def _records(path: Path) -> Iterable[dict[str, Any]]:
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError, RecursionError):  # the process may have died within its last line
            yield json.loads(line)


def _done(record: Mapping[str, Any]) -> Done:
    def verdict(value: Mapping[str, Any]) -> Verdict:
        return Verdict(**{key: value[key] for key in ("outcome", "phase", "blame", "reason")})

    attempts = tuple(
        Attempt(verdict=verdict(a), seconds=a["seconds"], lab=a.get("lab", "")) for a in record["attempts"]
    )
    mine = Verdict(
        **{key: record[key] for key in ("outcome", "phase", "blame", "reason", "self_reported")},
    )
    return Done(cell=parse_cell(record["id"]), verdict=mine, attempts=attempts)


def durations(folder: Path, backend: str) -> dict[str, float]:
    """Return seconds of an attempt by cell id, from the newest run on that backend with it."""
    found: dict[str, float] = {}
    for path in sorted(folder.glob("[0-9]*/results.json"), reverse=True)[:_LOOKED_AT]:
        with contextlib.suppress(OSError, *MALFORMED):
            value = json.loads(path.read_text())
            if value["backend"] == backend:
                for cell in value["cells"]:
                    if cell["attempts"]:
                        found.setdefault(cell["id"], cell["seconds"] / len(cell["attempts"]))
    return found


def expected_s(cells: Sequence[Cell], known: Mapping[str, float], jobs: int) -> float:
    """Return seconds for the cells on so many labs, in the scheduler's order."""
    labs: dict[object, float] = {}
    for cell in cells:
        labs[cell.lab] = labs.get(cell.lab, 0.0) + known.get(cell.id, DEFAULT_S)
    ends = [0.0] * jobs
    for seconds in sorted(labs.values(), reverse=True):
        heapq.heapreplace(ends, ends[0] + seconds)
    return max(ends)
