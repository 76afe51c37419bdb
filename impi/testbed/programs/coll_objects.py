"""Collective operations on Python objects."""

from __future__ import annotations

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

token = {"root": 0, "octets": report.octets("objects/bcast", 48)}
report.check("bcast", comm.bcast(token if rank == 0 else None, 0), token)
expected = [(r, report.octets(f"objects/gather/{r}", 24)) for r in range(size)]
report.check("gather", comm.gather(expected[rank], 0), expected if rank == 0 else None)
report.check("scatter", comm.scatter(expected if rank == 0 else None, 0), expected[rank])
report.check("reduce", comm.reduce([rank], root=0), list(range(size)) if rank == 0 else None)

report.done()
