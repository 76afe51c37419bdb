"""Cells of made-up jobs, for tests of their reports: one that passes, one that hangs."""

from __future__ import annotations

import threading

from forge import FakeBackend, Job

from impi.lab.judge.verdict import Verdict
from impi.lab.plan.cell import Cell, parse_cell
from impi.lab.run.collection import Seen
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

CELL = parse_cell("p2p.ring/mpich+openmpi/1x2+1x2")


LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)


WORLD = {"comm": "MPI_COMM_WORLD"}


def hangs(job: Job) -> None:
    """Ranks 1 and 2 wait for each other; the made-up packets have times from 1000 s on."""
    job.hangs |= {"server", "client 0", "client 1"}
    job.done.clear()
    for rank in range(4):
        job.wraps[rank] = {
            **job.wraps[rank],
            "status": None,
            "ended": None,
            "began": 900.0 + rank,
        }
        job.init[rank] = {**job.init[rank], "at": 950.0 + rank}
    for rank, source in ((1, 2), (2, 1)):
        job.calls[rank] = [
            {"t": 1100.0, "n": 1, "do": "Barrier", "nth": 1, **WORLD},
            {"t": 1100.5, "n": 1},
            {"t": 1101.0, "n": 2, "do": "Recv", "source": source, "tag": 99, **WORLD},
        ]


def ran(tweak=lambda job: None, cell: Cell = CELL) -> tuple[Seen, Verdict]:
    lab = FakeBackend(tweak=tweak).open(cell.vendors, cell.topology, run="r")
    seen = run_cell(prepare(lab, "r"), cell, LIMITS, threading.Event())
    return seen, judge_cell(cell, seen)
