"""NuMPI: one parallel file of all ranks."""

import numpy as np
from mpi4py import MPI
from NuMPI.IO import load_npy, save_npy

world = MPI.COMM_WORLD
mine = np.full((2, 3), float(world.rank))
save_npy("all.npy", mine, (2 * world.rank, 0), (2 * world.size, 3), world)
print(world.rank, load_npy("all.npy", (2 * world.rank, 0), (2, 3), world).sum())
