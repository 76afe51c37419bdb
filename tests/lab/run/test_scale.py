"""The most clients that IMPI allows in one job. (64 containers: docs/measurements/testbed.md.)"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.cases import CASES
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

CLIENTS = 32
SUM = """
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank)
world.Barrier()
if world.rank == 0:
    print(total, "of", world.size)
"""


@pytest.mark.slow
@pytest.mark.proof
def test_thirty_two_clients_in_one_job():
    cell = Cell(
        CASES["coll.all"],
        ("pure",) * CLIENTS,
        parse_topology("+".join(["1x1"] * CLIENTS)),
    )
    lab = LoopbackBackend().open(cell.vendors, cell.topology, run="scale")
    try:
        limits = Limits(server=120, start=400, cell=400, grace=60)
        seen = run_cell(prepare(lab, "scale"), cell, limits, threading.Event())
    finally:
        lab.close()
    verdict = judge_cell(cell, seen)
    assert (verdict.outcome, verdict.reason) == ("pass", "")
    assert len(seen.evidence.clients) == CLIENTS


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("few", [("--hosts", "client"), ("--lazy",)])
def test_eight_procs_of_each_of_thirty_two_clients(
    run_job: Callable[..., Any], tmp_path: Path, few: tuple[str, ...]
) -> None:
    """256 procs on one machine: 496 connections, or those that messages need, and not 31 744."""
    program = tmp_path / "sum.py"
    program.write_text(SUM)
    options = dict.fromkeys(range(CLIENTS), few)
    result = run_job(
        [str(program)], ["pure:8"] * CLIENTS, options=options, deadline_s=300.0
    )
    assert set(result.codes) == {0}, str(result)
    assert result.out == "32640 of 256\n"
