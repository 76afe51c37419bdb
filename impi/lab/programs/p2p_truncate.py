"""A message longer than its buffer is an error of the receiver alone, and the job goes on."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

request = comm.Isend(report.octets(f"truncate/{rank}", 100), to, 90)
small = array("B", bytes(50))
try:
    comm.Recv(small, source, 90)
    found = MPI.SUCCESS
except MPI.Exception as error:
    found = error.Get_error_class()
report.check("class of the error", found, MPI.ERR_TRUNCATE)
request.Wait()
into = array("B", bytes(50))
comm.Sendrecv(report.octets(f"truncate/next/{rank}", 50), to, 91, into, source, 91)
report.check(
    "the next message", into.tobytes(), report.octets(f"truncate/next/{source}", 50)
)

report.done()
