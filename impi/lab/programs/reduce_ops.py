"""Every predefined operation on integers (IMPI 4.16, 4.21)."""

from functools import reduce

import numpy as np
from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI
from payload import COMBINE  # type: ignore[import-not-found]

every = [report.numbers(f"ops/{r}", 6) for r in range(size)]
for name, combine in COMBINE.items():
    values = [[v % 7 for v in row] if name == "PROD" else row for row in every]
    total = np.zeros(6, dtype=np.int32)
    comm.Allreduce(np.array(values[rank], dtype=np.int32), total, getattr(MPI, name))
    report.check(
        name,
        total.tolist(),
        [reduce(combine, column) for column in zip(*values, strict=True)],
    )

report.done()
