"""Every rank sends to every other one and reduces; or rank 0 ends a process first, and all wait.

Arguments: ``kill`` or ``stop`` and a process id, or nothing.
"""

import os
import signal
import sys

from mpi4py import MPI

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
        os.kill(int(sys.argv[2]), {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[sys.argv[1]])
    comm.recv(source=(rank + 1) % size)  # nobody sends
if rank == 0:
    print("all right")
