"""Prints the bits of reductions of fixed random numbers, equal for every layout."""

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rng = np.random.default_rng(99)
numbers = rng.standard_normal((comm.size, 500)) * 10.0 ** rng.integers(
    -12, 12, (comm.size, 500)
)
mine = numbers[comm.rank]

results = []
everywhere = np.zeros(500)
comm.Allreduce(mine, everywhere)
results.append(everywhere.copy())
for root in range(comm.size):
    at_root = np.zeros(500)
    comm.Reduce(mine, at_root, root=root)
    comm.Bcast(at_root, root)
    results.append(at_root)
part = np.zeros(100)
comm.Reduce_scatter_block(np.tile(mine[:100], comm.size), part)
one = comm.allreduce(float(mine[0]))
objects = comm.allgather((part.tobytes(), one))
assert len(set(objects)) == 1
assert all(result.tobytes() == everywhere.tobytes() for result in results)
assert part.tobytes() == everywhere[:100].tobytes()
assert one == everywhere[0]
if comm.rank == 0:
    print(everywhere.tobytes().hex())
