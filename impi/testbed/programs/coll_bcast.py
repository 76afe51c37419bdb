"""A broadcast from every rank (IMPI 4.11)."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

for root in range(size):
    expected = report.numbers(f"bcast/{root}", 40)
    buffer = np.array(expected if rank == root else [0] * 40, dtype=np.float64)
    comm.Bcast(buffer, root)
    report.check(f"from {root}", buffer.tolist(), [float(v) for v in expected])

report.done()
