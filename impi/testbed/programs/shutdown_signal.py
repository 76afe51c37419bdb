"""A rank that a signal ends after MPI_Finalize fails its whole client (IMPI 2.3.7)."""

from __future__ import annotations

import os
import signal

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
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGUSR1)
