"""An uncaught exception fails its client with a traceback; the server names it (IMPI 2.3.7)."""

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

comm.Barrier()
report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))
report.done()
MPI.Finalize()
if rank == size - 1:
    raise RuntimeError("the case's own")
