"""Sums and products over all ranks, numbers and objects (IMPI 4.21)."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

every = [report.numbers(f"allreduce/{r}", 8) for r in range(size)]
total = np.zeros(8, dtype=np.int32)
comm.Allreduce(np.array(every[rank], dtype=np.int32), total, MPI.SUM)
report.check("sum", total.tolist(), [sum(column) for column in zip(*every, strict=True)])
least = np.array([float(v) for v in every[rank]])
comm.Allreduce(MPI.IN_PLACE, least, MPI.MIN)
report.check("minimum in place", least.tolist(), [float(min(column)) for column in zip(*every, strict=True)])
report.check("sum of objects", comm.allreduce(rank + 1), size * (size + 1) // 2)

report.done()
