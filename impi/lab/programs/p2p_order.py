"""Messages of one sender do not overtake each other, with any size and tag (MPI 3.5)."""

from array import array

from begun import comm, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

sizes = [(i * 7919) % 3000 + (300_000 if i % 16 == 5 else 4) for i in range(48)]
out = [array("B", bytes(n)) for n in sizes]
for i, buffer in enumerate(out):
    buffer[:4] = array("B", i.to_bytes(4, "big"))
requests = [comm.Isend(buffer, to, 33 + i % 3) for i, buffer in enumerate(out)]
status = MPI.Status()
seen = []
for _ in sizes:
    into = array("B", bytes(310_000))
    comm.Recv(into, source, MPI.ANY_TAG, status)
    seen.append(
        (
            int.from_bytes(into[:4].tobytes(), "big"),
            status.Get_tag(),
            status.Get_count(MPI.BYTE),
        )
    )
report.check(
    "order, tags and lengths", seen, [(i, 33 + i % 3, n) for i, n in enumerate(sizes)]
)
MPI.Request.Waitall(requests)

report.done()
