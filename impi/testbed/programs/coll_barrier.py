"""Barriers, with messages between them that must not change places (IMPI 4.10)."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

right, left = (rank + 1) % size, (rank - 1) % size
for i in range(3):
    request = comm.Isend(np.array([i], dtype=np.int32), right, 70)
    comm.Barrier()
    into = np.zeros(1, dtype=np.int32)
    comm.Recv(into, left, 70)
    request.Wait()
    report.check(f"message of barrier {i}", int(into[0]), i)

report.done()
