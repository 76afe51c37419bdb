"""A probe tells the length of a message that is longer than a packet (IMPI 3.7.2)."""

from __future__ import annotations

from array import array

from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size
to, source = (rank + size // 2) % size, (rank - size // 2) % size

length = report.plan["params"]["size"]
request = comm.Isend(report.octets(f"probe/long/{rank}", length), to, 98)
status = MPI.Status()
comm.Probe(source, 98, status)
report.check("what MPI_Probe tells", [status.Get_source(), status.Get_count(MPI.BYTE)], [source, length])
into = array("B", bytes(length))
comm.Recv(into, source, 98)
report.check("octets", into.tobytes() == report.octets(f"probe/long/{source}", length), True)
request.Wait()

report.done()
