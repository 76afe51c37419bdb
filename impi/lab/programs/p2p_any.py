"""Receives from anybody with any tag, after MPI_Probe: checks source, tag, length (IMPI 3.7.3)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

if rank == 0:
    seen = []
    for _ in range(2 * (size - 1)):
        status = MPI.Status()
        comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        source, tag, count = (
            status.Get_source(),
            status.Get_tag(),
            status.Get_count(MPI.BYTE),
        )
        into = array("B", bytes(count))
        comm.Recv(into, source, tag)
        report.check(
            "octets", into.tobytes(), report.octets(f"any/{source}/{tag}", count)
        )
        seen.append((source, tag, count))
    report.check(
        "who, which tag, how long",
        sorted(seen),
        sorted((r, tag, 10 + r) for r in range(1, size) for tag in (30, 31)),
    )
    # Messages of one sender do not overtake (MPI 3.5): tag 30 came before 31.
    report.check(
        "order",
        all(
            seen.index((r, 30, 10 + r)) < seen.index((r, 31, 10 + r))
            for r in range(1, size)
        ),
        True,
    )
    for r in range(1, size):
        for tag in (40, 41):
            comm.Send(report.octets(f"any/reply/{r}/{tag}", 16), r, tag)
else:
    replies = [array("B", bytes(16)) for _ in (40, 41)]
    posted = [comm.Irecv(each, MPI.ANY_SOURCE, MPI.ANY_TAG) for each in replies]
    for tag in (30, 31):
        comm.Send(report.octets(f"any/{rank}/{tag}", 10 + rank), 0, tag)
    MPI.Request.Waitall(posted)
    for tag, each in zip((40, 41), replies, strict=True):
        wanted = report.octets(f"any/reply/{rank}/{tag}", 16)
        report.check(f"reply {tag}", each.tobytes(), wanted)

report.done()
