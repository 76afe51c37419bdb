"""A job that goes on until there is a file of the name that is given."""

import sys
import time
from pathlib import Path

from mpi4py import MPI

world = MPI.COMM_WORLD
world.Barrier()
if world.rank == 0:
    print("up", flush=True)
while not Path(sys.argv[1]).exists():
    time.sleep(0.01)
world.Barrier()
