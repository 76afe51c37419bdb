"""Objects beyond the limit of a short message, by matched probes and without blocking."""

from begun import comm, rank, report, size, source, to  # type: ignore[import-not-found]
from mpi4py import MPI


def thing(of: int) -> dict[str, object]:
    """Return the object that rank ``of`` sends."""
    return {
        "rank": of,
        "large": report.octets(f"large/{of}", 300_000),
        "token": report.octets(f"large/token/{of}", 40),
    }


request = comm.isend(thing(rank), to, tag=63)
message = comm.mprobe(source, 63)
report.check("matched", message.recv() == thing(source), True)
request.wait()
requests = [comm.isend(thing(rank), to, tag=64), comm.isend([rank], to, tag=65)]
report.check("behind it", comm.recv(source=source, tag=65), [source])
report.check(
    "the large one", comm.recv(bytearray(400_000), source, 64) == thing(source), True
)
MPI.Request.waitall(requests)
report.check("gathered", comm.allgather(thing(rank)["rank"]), list(range(size)))

report.done()
