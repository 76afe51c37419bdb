"""A ring as a grid: neighbours, shifts, and collectives along its edges."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

ring = comm.Create_cart([size], periods=[True], reorder=False)
left, right = ring.Shift(0, 1)
report.check("neighbours", (left, right), ((rank - 1) % size, (rank + 1) % size))
into = array("B", bytes(26))
ring.Sendrecv(report.octets(f"cart/{rank}", 26), right, 7, into, left, 7)
report.check("around", into.tobytes(), report.octets(f"cart/{left}", 26))
report.check("of both neighbours", ring.neighbor_allgather(rank), [left, right])
pair = array("i", bytes(8))
ring.Neighbor_alltoall(array("i", [10 * rank, 10 * rank + 1]), pair)
report.check(
    "exchanged",
    pair.tolist(),
    [10 * left + 1, 10 * right] if size > 2 else pair.tolist(),
)
grid = comm.Create_cart(MPI.Compute_dims(size, 2), periods=[False, False])
row = grid.Sub([False, True])
report.check("sum over the row", row.allreduce(1), grid.dims[1])
for made in (row, grid, ring):
    made.Free()

report.done()
