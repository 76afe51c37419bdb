"""Gather and Scatter, short and long, to and from the first and the last rank (IMPI 4.12, 4.14)."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

for root in (0, size - 1):
    for n in (64, 2048):  # either side of 1024, where "long" begins (IMPI 2.3.5)
        mine = np.frombuffer(report.octets(f"gather/{root}/{n}/{rank}", n), dtype=np.uint8)
        every = b"".join(report.octets(f"gather/{root}/{n}/{r}", n) for r in range(size))
        into = np.zeros(n * size, dtype=np.uint8) if rank == root else None
        comm.Gather(mine, into, root)
        report.check(f"gather {n} to {root}", into is None or into.tobytes() == every, True)
        back = np.zeros(n, dtype=np.uint8)
        comm.Scatter(into, back, root)
        report.check(f"scatter {n} from {root}", back.tobytes() == mine.tobytes(), True)

report.done()
