"""A job of plain IMPI 0.0: MPI_LONG has four octets between clients (IMPI 1.2.2, 2.3.4)."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

into = array("l", bytes(48))
comm.Sendrecv(
    [array("l", report.numbers(f"long/{rank}", 6)), MPI.LONG],
    to,
    17,
    [into, MPI.LONG],
    source,
    17,
)
report.check("longs", into.tolist(), report.numbers(f"long/{source}", 6))

report.done()
