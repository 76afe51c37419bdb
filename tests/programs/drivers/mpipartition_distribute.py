"""mpipartition: particles go to the ranks that own their place."""

import numpy as np
from mpi4py import MPI
from mpipartition import Partition, distribute

world = MPI.COMM_WORLD
partition = Partition(3)
rng = np.random.default_rng(world.rank)
data = {name: rng.uniform(0, 1, 200).astype("f4") for name in "xyz"}
data["id"] = np.arange(200) + 200 * world.rank
mine = distribute(partition, 1.0, data, "xyz")
total = world.allreduce(len(mine["id"]))
inside = all(
    bool(np.all(mine[name] >= partition.origin[i])) for i, name in enumerate("xyz")
)
print(world.rank, len(mine["id"]), int(mine["id"].sum()), total, inside)
