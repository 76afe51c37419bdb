"""Bcast of more than a packet takes (IMPI 3.7.2, 4.11)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]

n = report.plan["params"]["size"]
root = size - 1
buffer = array("B", report.octets("long/bcast", n) if rank == root else bytes(n))
comm.Bcast(buffer, root)
report.check("bcast", buffer.tobytes() == report.octets("long/bcast", n), True)

report.done()
