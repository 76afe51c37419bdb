"""mpi-map: its barrier and its division of data, by ranks of one job."""

from mpi4py import MPI
from mpi_map.misc import barrier, split_data

world = MPI.COMM_WORLD
parts, starts = split_data(list(range(10)), world.size)
mine = world.scatter(parts)
barrier(world)
print(world.rank, mine, starts)
