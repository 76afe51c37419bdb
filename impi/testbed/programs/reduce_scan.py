"""Scan and Exscan: a chain over all ranks (IMPI 4.18)."""

from __future__ import annotations

from array import array

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

every = [report.numbers(f"scan/{r}", 10) for r in range(size)]
mine = array("i", every[rank])
total = array("i", bytes(40))
comm.Scan(mine, total, MPI.SUM)
report.check("scan", total.tolist(), [sum(column) for column in zip(*every[: rank + 1], strict=True)])
before = array("i", [-1] * 10)
comm.Exscan(mine, before, MPI.SUM)
expected = [sum(column) for column in zip(*every[:rank], strict=True)] if rank else [-1] * 10
report.check("exscan", before.tolist(), expected)

report.done()
