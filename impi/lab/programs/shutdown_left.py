"""Ranks of one client leave without MPI_Finalize, one with status 3: its code is 3 (IMPI 2.3.7)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from leaving import leave_together  # type: ignore[import-not-found]

comm.Barrier()
report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))
report.done()
# No rank has left when the last report is written.
comm.Barrier()
last = report.clients[-1][-2:]  # on one node
if rank in last:
    leave_together(last, 3 if rank == size - 1 else 0)
comm.Recv(array("B", bytes(8)), (rank + 1) % size, 70)  # a message that never comes
