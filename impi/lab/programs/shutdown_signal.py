"""A rank that a signal ends after MPI_Finalize fails its whole client (IMPI 2.3.7)."""

import os
import signal

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

comm.Barrier()
report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))
report.done()
MPI.Finalize()
if rank == size - 1:
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGUSR1)
