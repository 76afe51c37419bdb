"""A job that goes on until there is a file of the name that is given."""

import os
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 0:
    print("up", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
world.Barrier()
