"""Persistent requests, started three times with other contents."""

from __future__ import annotations

from array import array

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size
to, source = (rank + size // 2) % size, (rank - size // 2) % size

out, into = array("i", bytes(120)), array("i", bytes(120))
requests = [comm.Recv_init(into, source, 86), comm.Ssend_init(out, to, 86)]
for turn in range(3):
    out[:] = array("i", report.numbers(f"persistent/{turn}/{rank}", 30))
    for request in requests:
        request.Start()  # type: ignore[attr-defined]
    MPI.Request.Waitall([*requests])
    report.check(f"turn {turn}", into.tolist(), report.numbers(f"persistent/{turn}/{source}", 30))
for request in requests:
    request.Free()

report.done()
