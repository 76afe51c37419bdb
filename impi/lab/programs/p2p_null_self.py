"""Messages to MPI_PROC_NULL and to oneself, beside one that crosses."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

into = array("i", [7] * 3)
status = MPI.Status()
comm.Sendrecv(array("i", bytes(12)), MPI.PROC_NULL, 5, into, MPI.PROC_NULL, 5, status)
report.check(
    "message of MPI_PROC_NULL",
    (into.tolist(), status.Get_source(), status.Get_count(MPI.INT)),
    ([7] * 3, MPI.PROC_NULL, 0),
)
own = array("i", report.numbers(f"self/{rank}", 3))
comm.Sendrecv(own, rank, 5, into, rank, 5)
report.check("one's own", into.tolist(), own.tolist())
alone = array("i", bytes(12))
MPI.COMM_SELF.Sendrecv(own, 0, 5, alone, 0, 5)
report.check("on MPI_COMM_SELF", alone.tolist(), own.tolist())
comm.Sendrecv(own, to, 5, into, source, 5)
report.check("across", into.tolist(), report.numbers(f"self/{source}", 3))

report.done()
