"""A rank that ends with status 3 fails its whole client; the server names it (IMPI 2.3.7)."""

import sys

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

comm.Barrier()
report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))
report.done()
MPI.Finalize()
sys.exit(3 if rank == size - 1 else 0)
