"""Bcast of more than a packet takes (IMPI 3.7.2, 4.11)."""

from __future__ import annotations

from array import array

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

n = report.plan["params"]["size"]
root = size - 1
buffer = array("B", report.octets("long/bcast", n) if rank == root else bytes(n))
comm.Bcast(buffer, root)
report.check("bcast", buffer.tobytes() == report.octets("long/bcast", n), True)

report.done()
