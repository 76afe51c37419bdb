"""Say a variable to both streams; then stay, if told to."""

import os
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
print(
    f"{world.rank} has {os.environ.get('MINE')}\nand {os.environ.get('THEIRS')}",
    flush=True,
)
print("to stderr", file=sys.stderr, flush=True)
world.Barrier()
if sys.argv[-1] == "stay":
    time.sleep(600)
