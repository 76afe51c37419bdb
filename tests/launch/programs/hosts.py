"""Say how many procs and hosts there are, and which host is this proc's."""

import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
size, color = (
    world.Get_attr(getattr(MPI, f"IMPI_HOST_{name}")) for name in ("SIZE", "COLOR")
)
sys.stdout.write(f"{world.rank}: {world.allreduce(1)} procs, host {color} of {size}\n")
