"""All others call at one port at once, and the accepting rank takes them one after the other."""

import time
from array import array
from pathlib import Path

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

_WAIT_S = 5.0


def waiting(port: int) -> int:
    """Return the number of connections that wait to be accepted at a port of this node."""
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/net/{table}").read_text("ascii").splitlines()[1:]:
            _, here, _, state, queues, *_ = row.split()
            if state == "0A" and int(here.rpartition(":")[2], 16) == port:
                return int(queues.partition(":")[2], 16)

    return 0


name = MPI.Open_port() if rank == 0 else None
name = comm.bcast(name, root=0)
if rank == 0:
    number = int(name.rpartition(":")[0].rpartition(":")[2])
    deadline = time.monotonic() + _WAIT_S
    while waiting(number) < size - 1 and time.monotonic() < deadline:
        time.sleep(0.01)

    report.check("callers that wait at once", waiting(number), size - 1)
    callers = [MPI.COMM_SELF.Accept(name) for _ in range(size - 1)]
    into = array("i", [0])
    found = []
    for caller in callers:
        caller.Recv(into, 0, 7)
        found.append(into[0])

    report.check("callers", sorted(found), list(range(1, size)))
    for caller in callers:
        caller.Send(into, 0, 8)
        caller.Disconnect()

    MPI.Close_port(name)
else:
    accepted = MPI.COMM_SELF.Connect(name)
    report.check("size of the other group", accepted.remote_size, 1)
    accepted.Send(array("i", [rank]), 0, 7)
    accepted.Recv(array("i", [0]), 0, 8)
    accepted.Disconnect()

report.done()
