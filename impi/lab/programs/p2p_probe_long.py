"""A probe tells the length of a message that is longer than a packet (IMPI 3.7.2)."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

length = report.plan["params"]["size"]
request = comm.Isend(report.octets(f"probe/long/{rank}", length), to, 98)
status = MPI.Status()
comm.Probe(source, 98, status)
report.check(
    "result of MPI_Probe",
    [status.Get_source(), status.Get_count(MPI.BYTE)],
    [source, length],
)
into = array("B", bytes(length))
comm.Recv(into, source, 98)
report.check(
    "octets", into.tobytes() == report.octets(f"probe/long/{source}", length), True
)
request.Wait()

report.done()
