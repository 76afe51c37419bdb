"""mpilock: a lock of all ranks, which needs a window."""

import mpilock
from mpi4py import MPI

with mpilock.sync() as controller, controller.write():
    print("written by", MPI.COMM_WORLD.rank, flush=True)
