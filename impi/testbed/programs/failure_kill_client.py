"""An impirun is killed in mid-job: its ranks and all other clients end soon, nothing is left."""

from __future__ import annotations

import os
import signal
from array import array

from look_for_impirun import impirun  # type: ignore[import-not-found]
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
    comm.Send(b"", report.clients[-1][0], 72)
if rank == report.clients[-1][0]:  # on the node of impirun
    comm.Recv(bytearray(), size - 1, 72)
    os.kill(impirun(report.client), signal.SIGKILL)
comm.Recv(array("B", bytes(8)), (rank + 1) % size, 70)  # which will never come
