"""Cells that are run again where the machine was too busy."""

from __future__ import annotations

import threading

from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.interface import Backend
from impi.lab.plan.cell import Cell
from impi.lab.run.collection import Seen
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.recipe import Mutation
from impi.lab.run.schedule import judge_cell


def attempt(
    backend: Backend, cell: Cell, limits: Limits, mutation: Mutation | None, name: str
) -> tuple[Seen, Verdict]:
    """Run the cell; again where the lab says that the machine was too busy to tell."""
    for _ in range(3):
        lab = backend.open(cell.vendors, cell.topology, run=name)
        try:
            seen = run_cell(
                prepare(lab, name), cell, limits, threading.Event(), mutation
            )
        finally:
            lab.close()
        verdict = judge_cell(cell, seen)
        if not (
            verdict.outcome == "error" and "the machine is too busy" in verdict.reason
        ):
            break
    return seen, verdict
