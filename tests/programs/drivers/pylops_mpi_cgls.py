"""pylops-mpi: an inversion over distributed arrays."""

import numpy as np
import pylops
import pylops_mpi
from mpi4py import MPI

world = MPI.COMM_WORLD
rng = np.random.default_rng(world.rank)
block = np.diag(np.arange(2.0, 7.0)) + 0.1 * rng.standard_normal((5, 5))
operator = pylops_mpi.MPIBlockDiag(ops=[pylops.MatrixMult(block)])
model = pylops_mpi.DistributedArray(global_shape=5 * world.size)
model[:] = world.rank + 1.0
data = operator @ model
found = pylops_mpi.cgls(operator, data, x0=model.zeros_like(), niter=60, tol=1e-14)[0]
print(
    world.rank,
    bool(np.allclose(found.local_array, world.rank + 1.0)),
    round(float(found.dot(found)), 6),
)
