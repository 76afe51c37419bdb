"""An uncaught exception fails its client with a traceback; the server names it (IMPI 2.3.7)."""

from __future__ import annotations

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

comm.Barrier()
report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))
report.done()
MPI.Finalize()
if rank == size - 1:
    raise RuntimeError("the case's own")
