"""pyMOR: its event loop of ranks, which are in ``import pymor`` all the time."""

from pymor.tools import mpi


def part(factor):
    from mpi4py import MPI  # pyMOR's own module is half imported on the other ranks

    return MPI.COMM_WORLD.allreduce(factor * (MPI.COMM_WORLD.rank + 1))


print(mpi.size, mpi.call(part, 3))
