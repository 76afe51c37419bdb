"""The first part of a case's program: its report, and the names that all such programs use."""

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size
# The ranks half the job away
to, source = (rank + size // 2) % size, (rank - size // 2) % size


def ends_the_others() -> bool:
    """Report, and tell the last rank so; return whether this is it, and all have reported."""

    report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))

    report.done()
    if rank < size - 1:
        comm.Send(b"", size - 1, 71)
        return False

    for r in range(size - 1):
        comm.Recv(bytearray(), r, 71)

    return True
