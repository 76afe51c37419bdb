"""A job of plain IMPI 0.0: MPI_LONG has four octets between clients (IMPI 1.2.2, 2.3.4)."""

from __future__ import annotations

from array import array

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size
to, source = (rank + size // 2) % size, (rank - size // 2) % size

into = array("l", bytes(48))
comm.Sendrecv([array("l", report.numbers(f"long/{rank}", 6)), MPI.LONG], to, 17, [into, MPI.LONG], source, 17)
report.check("longs", into.tolist(), report.numbers(f"long/{source}", 6))

report.done()
