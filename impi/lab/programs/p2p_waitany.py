"""Completion in any order: Waitany, Waitsome and Testall over local and remote requests."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

others = [r for r in range(size) if r != rank]
into = {r: array("B", bytes(16)) for r in others}
again = {r: array("B", bytes(16)) for r in others}
first = [comm.Irecv(into[r], r, 44) for r in others]
second = [comm.Irecv(again[r], r, 45) for r in others]
sent = [
    comm.Isend(report.octets(f"waitany/{tag}/{rank}/{r}", 16), r, tag)
    for tag in (44, 45)
    for r in others
]
done = sorted(MPI.Request.Waitany(first) for _ in others)
report.check("each once", done, list(range(len(others))))
report.check("none is left", MPI.Request.Waitany(first), MPI.UNDEFINED)
seen: list[int] = []
while len(seen) < len(others):
    seen += MPI.Request.Waitsome(second) or []
report.check("some and some", sorted(seen), list(range(len(others))))
for tag, buffers in ((44, into), (45, again)):
    right = all(
        buffers[r].tobytes() == report.octets(f"waitany/{tag}/{r}/{rank}", 16)
        for r in others
    )
    report.check(f"octets of tag {tag}", right, True)
while not MPI.Request.Testall(sent):
    pass

report.done()
