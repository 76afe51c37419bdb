"""The job in every rank's view: its size, its own place, clients and hosts (IMPI 2.3.5, 2.5)."""

from __future__ import annotations

import os

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))
report.check("rank in range", 0 <= rank < size, True)
attribute = {
    name: comm.Get_attr(getattr(MPI, f"IMPI_{name}"))
    for name in ("CLIENT_SIZE", "CLIENT_COLOR", "HOST_SIZE", "HOST_COLOR")
}
report.check("IMPI_CLIENT_SIZE", attribute["CLIENT_SIZE"], len(report.clients))
report.check("IMPI_CLIENT_COLOR", attribute["CLIENT_COLOR"], report.client)
hosts, host = int(attribute["HOST_SIZE"] or 0), int(attribute["HOST_COLOR"] or 0)
report.check("IMPI_HOST_SIZE", len(report.clients) <= hosts <= size, True)
report.check("IMPI_HOST_COLOR", 0 <= host < hosts, True)
seen = comm.allgather((rank, report.client, os.getpid()))
report.check("all ranks, each once, in the order of their clients", [list(s[:2]) for s in seen], report.plan["order"])
report.check("MPI is initialised", MPI.Is_initialized() and not MPI.Is_finalized(), True)

report.done()
