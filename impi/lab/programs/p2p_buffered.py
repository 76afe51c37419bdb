"""Buffered sends end at once; a ready send finds its receive posted."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

MPI.Attach_buffer(bytearray(3 * (500 + MPI.BSEND_OVERHEAD)))
for i in range(3):
    comm.Bsend(report.octets(f"buffered/{i}/{rank}", 500), to, 88)
comm.Barrier()
for i in range(3):
    into = array("B", bytes(500))
    comm.Recv(into, source, 88)
    report.check(
        f"buffered {i}", into.tobytes(), report.octets(f"buffered/{i}/{source}", 500)
    )
MPI.Detach_buffer()
into = array("B", bytes(40))
request = comm.Irecv(into, source, 89)
comm.Barrier()
comm.Rsend(report.octets(f"ready/{rank}", 40), to, 89)
request.Wait()
report.check("ready", into.tobytes(), report.octets(f"ready/{source}", 40))

report.done()
