"""Long messages under way at the same time, both ways, received in reverse (IMPI 3.7.2)."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

n = report.plan["params"]["size"]
into = [array("B", bytes(n)) for _ in range(4)]
requests = [comm.Irecv(into[i], source, 40 + i) for i in (3, 1, 2, 0)]
out = [report.octets(f"interleaved/{i}/{rank}", n) for i in range(4)]
requests += [comm.Isend(buffer, to, 40 + i) for i, buffer in enumerate(out)]
MPI.Request.Waitall(requests)
for i, buffer in enumerate(into):
    report.check(
        f"message {i}",
        buffer.tobytes() == report.octets(f"interleaved/{i}/{source}", n),
        True,
    )

report.done()
