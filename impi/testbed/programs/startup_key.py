"""Nothing but start-up and shutdown; how the clients authenticated is on the wire (IMPI 2.3.3)."""

from __future__ import annotations

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))

report.done()
