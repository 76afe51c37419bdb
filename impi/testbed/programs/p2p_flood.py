"""Far more messages than may be under way, and nobody receives yet: flow control (IMPI 3.6)."""

from __future__ import annotations

from array import array

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size
to, source = (rank + size // 2) % size, (rank - size // 2) % size

count = report.plan["params"]["count"]
requests = [comm.Isend(array("i", [rank, i]), to, 36) for i in range(count)]
seen = []
into = array("i", bytes(8))
for _ in range(count):
    comm.Recv(into, source, 36)
    seen.append(into.tolist())
report.check("all, in their order", seen == [[source, i] for i in range(count)], True)
MPI.Request.Waitall(requests)

report.done()
