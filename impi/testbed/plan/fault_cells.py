"""The cells of the fault matrix."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from impi.testbed.cases.fault_matrix import FAULT_CASES, MATRIX, SMOKE, VICTIMS, Hit, Lab
from impi.testbed.lab.lab_topology import parse_topology
from impi.testbed.lab.parties import parse_parties
from impi.testbed.plan.cell import Cell
from impi.testbed.plan.variant import join

(_CASE,) = FAULT_CASES
_WHOLE: Final = ("faults", "full")
_OF_NETWORKS: Final = frozenset(name for name, victim in VICTIMS.items() if victim.network)


def fault_cells(tier: str) -> list[Cell]:
    """The cells of the matrix in a tier; with a job in each lab to which nothing is done."""
    if tier == "smoke":
        return [_cell(hit, lab) for hit, lab in SMOKE]
    return list(_every()) if tier in _WHOLE else []


@cache
def _every() -> tuple[Cell, ...]:
    """All of them once; a run asks for them several times."""
    return tuple(dict.fromkeys(_with_repeats()))


def _with_repeats() -> Iterator[Cell]:
    for row in MATRIX:
        for hit, lab in row.hits():
            yield _cell(None, lab)
            yield _cell(hit, lab)
    for hit, lab in SMOKE:
        yield _cell(hit, lab)


def _cell(hit: Hit | None, lab: Lab) -> Cell:
    variant = join(lab.settings, {"fault": str(hit)} if hit else {})
    return Cell(_CASE, parse_parties(lab.parties), parse_topology(lab.topology), variant)


def needs_network(value: str) -> bool:
    """Whether a fault is done to nodes or links, not to a process."""
    victim = value.partition("@")[0].partition("-")[2]
    return victim not in VICTIMS or victim in _OF_NETWORKS
