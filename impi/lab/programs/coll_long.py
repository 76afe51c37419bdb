"""Bcast, Gather and Allreduce of more than a packet takes (IMPI 3.7.2, 4.11, 4.12, 4.16)."""

import numpy as np
from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

n = report.plan["params"]["size"]
root = size - 1
buffer = np.frombuffer(
    report.octets("long/bcast", n) if rank == root else bytes(n), dtype=np.uint8
).copy()
comm.Bcast(buffer, root)
report.check("bcast", buffer.tobytes() == report.octets("long/bcast", n), True)
own = np.frombuffer(report.octets(f"long/gather/{rank}", n), dtype=np.uint8)
into = np.zeros(n * size, dtype=np.uint8) if rank == 0 else None
comm.Gather(own, into, 0)
right = into is None or into.tobytes() == b"".join(
    report.octets(f"long/gather/{r}", n) for r in range(size)
)
report.check("gather", right, True)
values = np.array(report.numbers(f"long/sum/{rank}", n // 8), dtype=np.float64)
total = np.zeros_like(values)
comm.Allreduce(values, total, MPI.SUM)
expected = np.sum(
    [report.numbers(f"long/sum/{r}", n // 8) for r in range(size)], axis=0
)
report.check("sum", bool((total == expected).all()), True)

report.done()
