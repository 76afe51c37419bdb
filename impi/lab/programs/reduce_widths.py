"""Sums of every width of number: the same on all ranks, to the last bit."""

import numpy as np
from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

for name, code in report.plan["params"]["types"]:
    every = np.array(
        [[v % 9 for v in report.numbers(f"widths/{name}/{r}", 6)] for r in range(size)],
        dtype=code,
    )
    total = np.zeros(6, dtype=code)
    datatype = getattr(MPI, name)
    comm.Allreduce([every[rank], datatype], [total, datatype], MPI.SUM)
    report.check(name, total.tolist(), every.sum(axis=0, dtype=code).tolist())
# Not exact, so the order of combining shows; but on all ranks alike (IMPI 4.21).
third = np.array([(rank + 1) / 3, 1e16 if rank == 0 else 1.0])
comm.Allreduce(MPI.IN_PLACE, third, MPI.SUM)
report.check("alike", len(set(comm.allgather(third.tobytes()))), 1)

report.done()
