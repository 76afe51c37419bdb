"""Every basic C datatype of one size everywhere, as external32 on the wire (IMPI 1.2.2)."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size
to, source = (rank + size // 2) % size, (rank - size // 2) % size

for tag, (name, code) in enumerate(report.plan["params"]["types"], 100):
    values = [v % 100 for v in report.numbers(f"types/{name}/{rank}", 5)]
    out, into = np.array(values, dtype=code), np.zeros(5, dtype=code)
    datatype = getattr(MPI, name)
    comm.Sendrecv([out, datatype], to, tag, [into, datatype], source, tag)
    report.check(name, into.tolist(), [v % 100 for v in report.numbers(f"types/{name}/{source}", 5)])

report.done()
