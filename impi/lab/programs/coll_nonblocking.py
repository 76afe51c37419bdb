"""Four collectives under way at once, beside a message, completed in reverse."""

from array import array

from begun import comm, rank, report, size, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

into = bytearray(20)
note = comm.Irecv(into, source, 72)
data = array("i", report.numbers("nonblocking/bcast", 15) if rank == 0 else [0] * 15)
every = [report.numbers(f"nonblocking/{r}", 9) for r in range(size)]
total = array("i", bytes(36))
pieces = array("i", bytes(36 * size))
requests = [
    comm.Ibcast(data, 0),
    comm.Iallreduce(array("i", every[rank]), total, MPI.SUM),
    comm.Ibarrier(),
    comm.Iallgather(array("i", every[rank]), pieces),
]
comm.Send(report.octets(f"nonblocking/note/{rank}", 20), to, 72)
note.Wait()
report.check("message", bytes(into), report.octets(f"nonblocking/note/{source}", 20))
for request in reversed(requests):
    request.Wait()
report.check("bcast", data.tolist(), report.numbers("nonblocking/bcast", 15))
report.check(
    "sum", total.tolist(), [sum(column) for column in zip(*every, strict=True)]
)
report.check("allgather", pieces.tolist(), [v for row in every for v in row])

report.done()
