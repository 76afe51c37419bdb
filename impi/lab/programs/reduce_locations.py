"""MINLOC and MAXLOC: a value and where it is, as external32 without gaps (IMPI 1.2.2, 4.16)."""

import numpy as np
from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

shape = np.dtype([("value", "f8"), ("index", "i4")], align=True)
every = [[v % 5 for v in report.numbers(f"locations/{r}", 8)] for r in range(size)]
mine = np.zeros(8, dtype=shape)
mine["value"], mine["index"] = every[rank], rank
for op, better in ((MPI.MAXLOC, max), (MPI.MINLOC, min)):
    found = np.zeros(8, dtype=shape)
    comm.Reduce([mine, 8, MPI.DOUBLE_INT], [found, 8, MPI.DOUBLE_INT], op, size - 1)
    best = [better(column) for column in zip(*every, strict=True)]
    where = [
        column.index(value)
        for column, value in zip(zip(*every, strict=True), best, strict=True)
    ]
    right = rank != size - 1 or (found["value"].tolist(), found["index"].tolist()) == (
        [float(v) for v in best],
        where,
    )
    report.check(better.__name__, right, True)

report.done()
