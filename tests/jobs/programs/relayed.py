"""Every rank sends to every other one and reduces; or rank 0 then ends a process, and all wait.

Arguments: nothing, or ``kill`` or ``stop`` and a process id or ``impirun``, which is the own one.
"""

import os
import signal
import sys
from pathlib import Path

from mpi4py import MPI


def own_impirun() -> int:
    """The highest process above this one that is an impirun: starters are forks of it."""
    found, pid = 0, os.getppid()
    while pid > 1:
        if b"impi.cli.impirun" in Path(f"/proc/{pid}/cmdline").read_bytes():
            found = pid
        pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    return found


assert "IMPI_RELAY" not in os.environ  # jobs that procs start have no relay
comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
for octets in (10, 3_000_000):
    requests = [comm.isend(bytes([rank]) * octets, other) for other in range(size)]
    for other in range(size):
        assert comm.recv(source=other) == bytes([other]) * octets
    MPI.Request.waitall(requests)
assert comm.allreduce(rank) == size * (size - 1) // 2
if len(sys.argv) > 2:
    if rank == 0:
        victim = own_impirun() if sys.argv[2] == "impirun" else int(sys.argv[2])
        os.kill(victim, {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[sys.argv[1]])
    comm.recv(source=(rank + 1) % size)  # nobody sends
if rank == 0:
    print("all right")
