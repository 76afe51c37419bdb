"""Bcast of doubles from every root (IMPI 4.11)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]

for root in range(size):
    values = report.numbers(f"bcast/{root}", 40)
    buffer = array("d", values if rank == root else [0] * 40)
    comm.Bcast(buffer, root)
    report.check(f"bcast from {root}", buffer.tolist(), [float(v) for v in values])

report.done()
