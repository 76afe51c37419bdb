"""mpi4py.util.pkl5: objects with large buffers, which travel beside their pickles."""

import numpy as np
from mpi4py import MPI
from mpi4py.util import pkl5

world = pkl5.Intracomm(MPI.COMM_WORLD)
right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
array = np.arange(100_000.0) + world.rank
request = world.isend({"from": world.rank, "array": array}, dest=right, tag=3)
got = world.recv(source=left, tag=3)
request.wait()
print(world.rank, got["from"], got["array"].sum())
whole = world.allgather(np.full(1000, world.rank))
print(
    world.rank,
    [int(part.sum()) for part in whole],
    world.bcast(array, root=1)[:2].tolist(),
)
print(
    world.rank,
    [
        int(part[0])
        for part in world.alltoall(
            [np.full(5, 10 * world.rank + i) for i in range(world.size)]
        )
    ],
)
