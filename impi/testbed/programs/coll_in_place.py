"""MPI_IN_PLACE in every collective operation that takes it."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

every = [report.numbers(f"in-place/{r}", 4) for r in range(size)]
flat = [v for row in every for v in row]
sums = [sum(column) for column in zip(*every, strict=True)]
mine = np.array(every[rank], dtype=np.int32)
whole = np.zeros((size, 4), dtype=np.int32)
whole[rank] = mine
comm.Allgather(MPI.IN_PLACE, whole)
report.check("allgather", whole.ravel().tolist(), flat)
buffer = mine.copy()
comm.Reduce(MPI.IN_PLACE if rank == 0 else buffer, buffer if rank == 0 else None, MPI.SUM, 0)
report.check("reduce", buffer.tolist(), sums if rank == 0 else every[rank])
whole[:] = 0
whole[rank] = mine
comm.Gather(MPI.IN_PLACE if rank == 0 else mine, whole if rank == 0 else None, 0)
report.check("gather", rank != 0 or whole.ravel().tolist() == flat, True)
if rank == 0:
    comm.Scatter(whole, MPI.IN_PLACE, 0)
    back = whole[0]
else:
    back = np.zeros(4, dtype=np.int32)
    comm.Scatter(None, back, 0)
report.check("scatter", back.tolist(), every[rank])
table = np.array([[rank, r] for r in range(size)], dtype=np.int32)
comm.Alltoall(MPI.IN_PLACE, table)
report.check("alltoall", table.tolist(), [[r, rank] for r in range(size)])
running = mine.copy()
comm.Scan(MPI.IN_PLACE, running, MPI.SUM)
report.check("scan", running.tolist(), [sum(column) for column in zip(*every[: rank + 1], strict=True)])

report.done()
