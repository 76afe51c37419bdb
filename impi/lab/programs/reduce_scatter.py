"""Reduce_scatter, in blocks of one and of several lengths (IMPI 4.17)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

every = [report.numbers(f"reduce-scatter/{r}", size * (size + 5)) for r in range(size)]
sums = [sum(column) for column in zip(*every, strict=True)]
mine = array("i", every[rank])
block = array("i", bytes(20))
comm.Reduce_scatter_block(mine[: 5 * size], block, MPI.SUM)
report.check("blocks", block.tolist(), sums[5 * rank : 5 * rank + 5])
counts = [2 * r + 1 for r in range(size)]
own = mine[: sum(counts)]
part = array("i", bytes(4 * counts[rank]))
comm.Reduce_scatter(own, part, counts, MPI.SUM)
start = sum(counts[:rank])
report.check("several lengths", part.tolist(), sums[start : start + counts[rank]])

report.done()
