"""A sum to every root, and a maximum (IMPI 4.16)."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

mine = np.array(report.numbers(f"reduce/{rank}", 12), dtype=np.int32)
every = [report.numbers(f"reduce/{r}", 12) for r in range(size)]
for root in range(size):
    result = np.zeros(12, dtype=np.int32)
    comm.Reduce(mine, result if rank == root else None, MPI.SUM, root)
    if rank == root:
        report.check(f"sum to {root}", result.tolist(), [sum(column) for column in zip(*every, strict=True)])
largest = np.zeros(12, dtype=np.float64)
comm.Allreduce(mine.astype(np.float64), largest, MPI.MAX)
report.check("maximum", largest.tolist(), [float(max(column)) for column in zip(*every, strict=True)])

report.done()
