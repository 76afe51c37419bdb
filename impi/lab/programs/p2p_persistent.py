"""Persistent requests, started three times with other contents."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

out, into = array("i", bytes(120)), array("i", bytes(120))
requests = [comm.Recv_init(into, source, 86), comm.Ssend_init(out, to, 86)]
for turn in range(3):
    out[:] = array("i", report.numbers(f"persistent/{turn}/{rank}", 30))
    for request in requests:
        request.Start()
    MPI.Request.Waitall([*requests])
    report.check(
        f"turn {turn}", into.tolist(), report.numbers(f"persistent/{turn}/{source}", 30)
    )
for request in requests:
    request.Free()

report.done()
