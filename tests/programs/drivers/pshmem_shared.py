"""pshmem: an array in memory that the ranks of a node share."""

import numpy as np
from mpi4py import MPI
from pshmem import MPIShared

world = MPI.COMM_WORLD
with MPIShared((5, 4), np.float64, world) as shared:
    values = np.arange(20.0).reshape(5, 4) if world.rank == 0 else None
    shared.set(values, offset=(0, 0), fromrank=0)
    print(world.rank, shared[2].tolist(), float(np.sum(shared[:])))
