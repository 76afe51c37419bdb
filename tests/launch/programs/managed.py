"""A ring through all ranks; then rank 1 ends in the way that the last argument names."""

import os
import signal
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
token = world.sendrecv(f"from {world.rank}", dest=right, source=left)
assert token == f"from {left}"
if world.rank == 0:
    sys.stdout.write(f"a ring of {world.size}, {sys.stdin.read()}\n")
    sys.stdout.flush()
world.Barrier()
if world.rank == 1:
    match sys.argv[-1]:
        case "abort":
            MPI.COMM_WORLD.Abort(7)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "leave":
            os._exit(0)
world.Barrier()
