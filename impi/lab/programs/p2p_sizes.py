"""Messages around the short limit: none, one octet, the limit, its neighbours, more (IMPI 3.7)."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

sizes = report.plan["params"]["sizes"]

into = [array("B", bytes(n)) for n in sizes]
requests = [comm.Irecv(buffer, source, 20 + i) for i, buffer in enumerate(into)]
out = [report.octets(f"sizes/{rank}/{n}", n) for n in sizes]
requests += [comm.Isend(buffer, to, 20 + i) for i, buffer in enumerate(out)]
statuses = [MPI.Status() for _ in requests]
MPI.Request.Waitall(requests, statuses)
for n, buffer, status in zip(sizes, into, statuses, strict=False):
    report.check(
        f"{n} octets", buffer.tobytes() == report.octets(f"sizes/{source}/{n}", n), True
    )
    report.check(f"count of {n} octets", status.Get_count(MPI.BYTE), n)

report.done()
