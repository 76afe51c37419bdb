"""NuMPI: reductions of distributed arrays."""

import numpy as np
from mpi4py import MPI
from NuMPI.Tools import Reduction

world = MPI.COMM_WORLD
reduce = Reduction(world)
mine = np.arange(12.0).reshape(4, 3) + 10 * world.rank
print(
    world.rank, reduce.sum(mine), reduce.max(mine), reduce.min(mine), reduce.mean(mine)
)
print(
    world.rank,
    reduce.sum(mine, axis=0).tolist(),
    reduce.any(mine > 30),
    reduce.all(mine >= 0),
)
