"""Cells that are listed one by one: those of the fault matrix, and those of the soak."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from impi.lab.cases.ends.fault_matrix import FAULT_CASES, MATRIX, SMOKE, FaultLab
from impi.lab.cases.ends.network_faults import FAULTS
from impi.lab.cases.ends.soak import CONFIGURATIONS, SOAK_CASES, WINDOW_CONFIGURATIONS
from impi.lab.cases.faults import Fault
from impi.lab.nodes import parse_parties, parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.plan.variant import join

(_MATRIX,), (_MESSAGES, _WINDOWS) = FAULT_CASES, SOAK_CASES


def fault_cells(tier: str) -> list[Cell]:
    """Return the cells of the matrix in a tier, with a job in each lab that suffers nothing."""
    if tier == "smoke":
        return [_cell(hit, lab) for hit, lab in SMOKE]

    return list(_all_listed()) if tier in ("faults", "full") else []


@cache
def _all_listed() -> tuple[Cell, ...]:
    """Return all of them once: a run asks for them several times."""
    return tuple(dict.fromkeys(_with_repeats()))


def _with_repeats() -> Iterator[Cell]:
    for start in ({}, {"start": "one"}):
        for row in MATRIX:
            for hit, lab in row.hits():
                # The backend of such jobs has no nodes and links to hit.
                if not start or hit.whom.kind == "process":
                    yield _cell(None, lab, start)
                    yield _cell(hit, lab, start)

    for hit, lab in SMOKE:
        yield _cell(hit, lab)


def _cell(
    fault: Fault | None, lab: FaultLab, start: Mapping[str, str] | None = None
) -> Cell:
    hit = {"fault": str(fault)} if fault else {}
    variant = join(lab.settings, {**(start or {}), **hit})
    return Cell(
        _MATRIX, parse_parties(lab.parties), parse_topology(lab.topology), variant
    )


def needs_network(value: str) -> bool:
    """Whether a fault hits nodes or links, and no process."""
    return FAULTS[value].whom.kind != "process"


def soak_cells(tier: str) -> list[Cell]:
    """Return the cells of the soak in a tier."""
    if tier not in ("soak", "full"):
        return []

    return [
        Cell(case, parse_parties(c.parties), parse_topology(c.topology), c.settings)
        for case, rows in (
            (_MESSAGES, CONFIGURATIONS),
            (_WINDOWS, WINDOW_CONFIGURATIONS),
        )
        for c in rows
    ]
