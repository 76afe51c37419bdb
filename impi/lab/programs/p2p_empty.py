"""Messages without octets, with the smallest and with large tags."""

from array import array

from begun import comm, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

nothing = array("d", bytes(0))
status = MPI.Status()
for tag in report.plan["params"]["tags"]:
    comm.Sendrecv(nothing, to, tag, array("d", bytes(0)), source, tag, status)
    report.check(
        f"tag {tag}", (status.Get_tag(), status.Get_count(MPI.DOUBLE)), (tag, 0)
    )
report.check(
    "MPI_TAG_UB",
    int(comm.Get_attr(MPI.TAG_UB) or 0) >= report.plan["params"]["tags"][-1],
    True,
)

report.done()
