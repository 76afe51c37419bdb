"""Probes tell source, tag and length before a message is received, long ones too (IMPI 3.7.3)."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

lengths = report.plan["params"]["sizes"]
requests = [
    comm.Isend(report.octets(f"probe/{rank}/{n}", n), to, 95 + i)
    for i, n in enumerate(lengths)
]
status = MPI.Status()
for i, n in reversed(list(enumerate(lengths))):
    comm.Probe(source, 95 + i, status)
    report.check(
        f"Probe of {n}", (status.Get_source(), status.Get_count(MPI.BYTE)), (source, n)
    )
    # Older messages of other tags wait, too.
    while not comm.Iprobe(MPI.ANY_SOURCE, 95 + i, status):
        pass
    report.check(f"Iprobe of {n}", status.Get_count(MPI.BYTE), n)
    message = comm.Mprobe(source, 95 + i, status)
    report.check(f"nothing is left of {n}", comm.Iprobe(source, 95 + i), False)
    into = array("B", bytes(status.Get_count(MPI.BYTE)))
    message.Recv(into)
    report.check(
        f"octets of {n}",
        into.tobytes() == report.octets(f"probe/{source}/{n}", n),
        True,
    )
MPI.Request.Waitall(requests)

report.done()
