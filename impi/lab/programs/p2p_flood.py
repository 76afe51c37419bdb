"""Far more messages than may be under way, before any receive: flow control (IMPI 3.6)."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

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
