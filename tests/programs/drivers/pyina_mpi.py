"""pyina: the division of work and the world that it uses."""

from mpi4py import MPI
from pyina import mpi_pool
from pyina.mpi import world

assert MPI.Comm.Compare(world, MPI.COMM_WORLD) in (MPI.IDENT, MPI.CONGRUENT)
found = mpi_pool.parallel_map(lambda n: n * n, range(10), comm=MPI.COMM_WORLD)
if world.rank == 0:
    print(list(found))
