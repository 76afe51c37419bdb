"""Bcast of doubles from every root (IMPI 4.11)."""

from __future__ import annotations

from array import array

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

for root in range(size):
    values = report.numbers(f"bcast/{root}", 40)
    buffer = array("d", values if rank == root else [0] * 40)
    comm.Bcast(buffer, root)
    report.check(f"bcast from {root}", buffer.tolist(), [float(v) for v in values])

report.done()
