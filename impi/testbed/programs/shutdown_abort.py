"""MPI_Abort of one rank ends all clients, its own one with its code (IMPI 2.3.7, 2.4)."""

from __future__ import annotations

from array import array

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))
report.done()
if rank < size - 1:
    comm.Send(b"", size - 1, 71)
else:
    for r in range(size - 1):  # all have reported
        comm.Recv(bytearray(), r, 71)
    comm.Abort(7)
comm.Recv(array("B", bytes(8)), size - 1, 70)  # which will never come
