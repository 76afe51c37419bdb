"""Allreduce of ints and doubles (IMPI 4.21)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

every = [report.numbers(f"allreduce/{r}", 8) for r in range(size)]
total = array("i", bytes(32))
comm.Allreduce(array("i", every[rank]), total, MPI.SUM)
report.check(
    "sum", total.tolist(), [sum(column) for column in zip(*every, strict=True)]
)
largest = array("d", bytes(64))
comm.Allreduce(array("d", every[rank]), largest, MPI.MAX)
report.check(
    "maximum",
    largest.tolist(),
    [float(max(column)) for column in zip(*every, strict=True)],
)

report.done()
