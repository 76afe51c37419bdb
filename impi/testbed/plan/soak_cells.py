"""The cells of the soak, from its configurations."""

from __future__ import annotations

from typing import Final

from impi.testbed.cases.soak import CONFIGURATIONS, SOAK_CASES
from impi.testbed.lab.lab_topology import parse_topology
from impi.testbed.lab.parties import parse_parties
from impi.testbed.plan.cell import Cell

(_CASE,) = SOAK_CASES
_WHOLE: Final = ("soak", "full")


def soak_cells(tier: str) -> list[Cell]:
    """The cells of the soak in a tier."""
    if tier not in _WHOLE:
        return []
    return [Cell(_CASE, parse_parties(c.parties), parse_topology(c.topology), c.settings) for c in CONFIGURATIONS]
