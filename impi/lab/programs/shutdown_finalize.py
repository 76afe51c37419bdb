"""A message without a receive does not keep MPI_Finalize from ending (IMPI 3.8)."""

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

if rank == 0:
    comm.Send(report.octets("finalize/unmatched", 100), size - 1, 77)
comm.Barrier()
report.check(
    "MPI is initialised", MPI.Is_initialized() and not MPI.Is_finalized(), True
)
report.done()
MPI.Finalize()
