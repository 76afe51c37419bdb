"""Everybody gets what everybody has (IMPI 4.19)."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

every = b"".join(report.octets(f"allgather/{r}", 80) for r in range(size))
into = np.zeros(80 * size, dtype=np.uint8)
comm.Allgather(np.frombuffer(report.octets(f"allgather/{rank}", 80), dtype=np.uint8), into)
report.check("octets", into.tobytes(), every)
report.check("objects", comm.allgather({"rank": rank}), [{"rank": r} for r in range(size)])

report.done()
