"""Scan and Exscan: a chain over all ranks (IMPI 4.18)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

every = [report.numbers(f"scan/{r}", 10) for r in range(size)]
mine = array("i", every[rank])
total = array("i", bytes(40))
comm.Scan(mine, total, MPI.SUM)
report.check(
    "scan",
    total.tolist(),
    [sum(column) for column in zip(*every[: rank + 1], strict=True)],
)
before = array("i", [-1] * 10)
comm.Exscan(mine, before, MPI.SUM)
expected = (
    [sum(column) for column in zip(*every[:rank], strict=True)] if rank else [-1] * 10
)
report.check("exscan", before.tolist(), expected)

report.done()
