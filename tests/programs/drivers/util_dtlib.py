"""mpi4py.util.dtlib: a structured array travels by a datatype made from its dtype."""

import numpy as np
from mpi4py import MPI
from mpi4py.util import dtlib

world = MPI.COMM_WORLD
dtype = np.dtype([("a", "i4"), ("b", "f8", (3,)), ("c", "c16")], align=True)
datatype = dtlib.from_numpy_dtype(dtype).Commit()
mine = np.zeros(4, dtype)
mine["a"], mine["b"], mine["c"] = world.rank, world.rank / 7, world.rank * 1j
got = np.zeros(4, dtype)
world.Sendrecv(
    [mine, 4, datatype],
    (world.rank + 1) % world.size,
    0,
    [got, 4, datatype],
    (world.rank - 1) % world.size,
    0,
)
print(
    world.rank,
    got["a"],
    got["b"].sum().round(12),
    got["c"].sum(),
    dtlib.to_numpy_dtype(datatype) == dtype,
)
datatype.Free()
