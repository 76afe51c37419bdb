"""Say who is there."""

import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
sys.stdout.write(
    f"hello from {world.rank} of {world.size}, {world.allreduce(world.rank)}\n"
)
if "fail" in sys.argv:
    world.Barrier()
    if world.rank == 0:
        sys.stdout.flush()
        sys.exit(3)
