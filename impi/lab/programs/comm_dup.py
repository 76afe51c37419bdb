"""Messages of a duplicate, of its duplicate and of the original do not meet (IMPI 4.3, 4.6)."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

twin = comm.Dup()
third = twin.Dup()
comms = (comm, twin, third)
out = [report.octets(f"dup/{i}/{rank}", 24) for i in range(3)]
requests = [c.Isend(buffer, to, 7) for c, buffer in zip(comms, out, strict=True)]
for i in (2, 0, 1):
    into = array("B", bytes(24))
    comms[i].Recv(into, MPI.ANY_SOURCE, MPI.ANY_TAG)
    report.check(
        f"communicator {i}", into.tobytes(), report.octets(f"dup/{i}/{source}", 24)
    )
MPI.Request.Waitall(requests)
report.check("congruent", MPI.Comm.Compare(comm, third), MPI.CONGRUENT)
third.Free()
twin.Free()

report.done()
