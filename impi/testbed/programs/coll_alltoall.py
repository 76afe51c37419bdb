"""Everybody has something of its own for everybody (IMPI 4.22)."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

out = b"".join(report.octets(f"alltoall/{rank}/{r}", 32) for r in range(size))
into = np.zeros(32 * size, dtype=np.uint8)
comm.Alltoall(np.frombuffer(out, dtype=np.uint8), into)
report.check("octets", into.tobytes(), b"".join(report.octets(f"alltoall/{r}/{rank}", 32) for r in range(size)))
report.check("objects", comm.alltoall([(rank, r) for r in range(size)]), [(r, rank) for r in range(size)])

report.done()
