"""Reduce of ints to every root (IMPI 4.16)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

mine = array("i", report.numbers(f"reduce/{rank}", 12))
every = [report.numbers(f"reduce/{r}", 12) for r in range(size)]
for root in range(size):
    result = array("i", bytes(48))
    comm.Reduce(mine, result if rank == root else None, MPI.SUM, root)
    if rank == root:
        report.check(
            f"sum to {root}",
            result.tolist(),
            [sum(column) for column in zip(*every, strict=True)],
        )

report.done()
