"""Barriers with messages between them, which do not change places (IMPI 4.10)."""

from __future__ import annotations

from array import array

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

right, left = (rank + 1) % size, (rank - 1) % size
for i in range(3):
    request = comm.Isend(array("i", [i]), right, 70)
    comm.Barrier()
    number = array("i", [-1])
    comm.Recv(number, left, 70)
    request.Wait()
    report.check(f"message of barrier {i}", number[0], i)

report.done()
