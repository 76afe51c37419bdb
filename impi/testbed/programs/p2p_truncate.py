"""A message longer than its buffer is an error of the receiver alone, and the job goes on."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size
to, source = (rank + size // 2) % size, (rank - size // 2) % size

request = comm.Isend(np.frombuffer(report.octets(f"truncate/{rank}", 100), dtype=np.uint8), to, 90)
small = np.zeros(50, dtype=np.uint8)
try:
    comm.Recv(small, source, 90)
    found = MPI.SUCCESS
except MPI.Exception as error:
    found = error.Get_error_class()
report.check("class of the error", found, MPI.ERR_TRUNCATE)
request.Wait()
into = np.zeros(50, dtype=np.uint8)
comm.Sendrecv(np.frombuffer(report.octets(f"truncate/next/{rank}", 50), dtype=np.uint8), to, 91, into, source, 91)
report.check("the next message", into.tobytes(), report.octets(f"truncate/next/{source}", 50))

report.done()
