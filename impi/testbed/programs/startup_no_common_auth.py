"""The last client has no authentication method in common with the server (IMPI 2.3.3)."""

from __future__ import annotations

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

# MPI_Init waits for all clients: nobody comes as far as this.
report = Report(MPI)
report.check("nobody starts", report.rank, None)
report.done()
