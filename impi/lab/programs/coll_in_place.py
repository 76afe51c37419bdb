"""MPI_IN_PLACE in every collective operation that takes it."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

every = [report.numbers(f"in-place/{r}", 4) for r in range(size)]
flat = [v for row in every for v in row]
sums = [sum(column) for column in zip(*every, strict=True)]
mine = array("i", every[rank])
block = slice(4 * rank, 4 * rank + 4)
whole = array("i", bytes(16 * size))
whole[block] = mine
comm.Allgather(MPI.IN_PLACE, whole)
report.check("allgather", whole.tolist(), flat)
buffer = mine[:]
comm.Reduce(
    MPI.IN_PLACE if rank == 0 else buffer, buffer if rank == 0 else None, MPI.SUM, 0
)
report.check("reduce", buffer.tolist(), sums if rank == 0 else every[rank])
whole = array("i", bytes(16 * size))
whole[block] = mine
comm.Gather(MPI.IN_PLACE if rank == 0 else mine, whole if rank == 0 else None, 0)
report.check("gather", rank != 0 or whole.tolist() == flat, True)
if rank == 0:
    comm.Scatter(whole, MPI.IN_PLACE, 0)
    back = whole[block]
else:
    back = array("i", bytes(16))
    comm.Scatter(None, back, 0)
report.check("scatter", back.tolist(), every[rank])
table = array("i", [v for r in range(size) for v in (rank, r)])
comm.Alltoall(MPI.IN_PLACE, table)
report.check("alltoall", table.tolist(), [v for r in range(size) for v in (r, rank)])
running = mine[:]
comm.Scan(MPI.IN_PLACE, running, MPI.SUM)
report.check(
    "scan",
    running.tolist(),
    [sum(column) for column in zip(*every[: rank + 1], strict=True)],
)

report.done()
