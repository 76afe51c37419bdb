"""Two runs compared: cells that became worse, better, or otherwise different."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from impi.lab.report.results import GREEN, RED, Json

KINDS: Final = ("worse", "better", "changed", "new", "gone")
"""Kinds of changes, in the order of the report.

``worse``: red now, and not before; or green before and in the plan, but not tried now. ``changed``:
neither, but another result. ``new`` and ``gone``: only one run has it, and a new one is not red.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A cell with another result."""

    kind: str  # one of :data:`KINDS`
    id: str
    before: str  # its result; empty: the run does not have it
    after: str
    reason: str  # why it does not pass now; empty: it does
    seconds_before: float
    seconds_after: float


def compare(before: Json, after: Json) -> list[Change]:
    """Return the changes from one ``results.json`` to another, the worse ones first."""
    old, new = ({cell["id"]: cell for cell in run["cells"]} for run in (before, after))
    found = list(_changes(old, new))

    return sorted(found, key=lambda change: (KINDS.index(change.kind), change.id))


def as_json(before: Json, after: Json, changes: list[Change]) -> Json:
    """Return the value of ``impilab diff --json``."""
    counts = Counter(change.kind for change in changes)
    return {
        "schema": "impilab/diff/1",
        "before": before["run"],
        "after": after["run"],
        "totals": {kind: counts[kind] for kind in KINDS},
        "cells": [asdict(change) for change in changes],
    }


def _changes(old: Mapping[str, Json], new: Mapping[str, Json]) -> Iterator[Change]:
    for cell in dict.fromkeys([*old, *new]):
        was, now = _result(old.get(cell)), _result(new.get(cell))
        if kind := _kind(was, now):
            yield Change(
                kind=kind,
                id=cell,
                before=was,
                after=now,
                reason=str(new.get(cell, {}).get("reason", "")),
                seconds_before=old.get(cell, {}).get("seconds", 0.0),
                seconds_after=new.get(cell, {}).get("seconds", 0.0),
            )


def _result(record: Json | None) -> str:
    return str(record["result"]) if record is not None else ""


def _kind(was: str, now: str) -> str:
    """Return the kind of a change; empty: there is none."""

    if now in RED and was not in RED:
        return "worse"

    if not now or not was:
        return "" if now == was else ("gone" if was else "new")

    if was in GREEN and now not in (*GREEN, *RED):
        return "worse"

    if was in RED and now in GREEN:
        return "better"

    return "" if now == was else "changed"
