"""The program of a case as it begins: its report, and what all such programs have names for."""

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size
to, source = (rank + size // 2) % size, (rank - size // 2) % size  # the ranks half the job away


def ends_the_others() -> bool:
    """Report, and tell the last rank so; whether this is that rank, and all have reported."""
    report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))
    report.done()
    if rank < size - 1:
        comm.Send(b"", size - 1, 71)
        return False
    for r in range(size - 1):
        comm.Recv(bytearray(), r, 71)
    return True
