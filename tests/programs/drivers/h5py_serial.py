"""h5py's wheel: files of each rank; it has no parallel files, and says so."""

import h5py
import numpy as np
from mpi4py import MPI

rank = MPI.COMM_WORLD.rank
with h5py.File(f"part{rank}.h5", "w") as file:
    file["x"] = np.arange(10) * rank
MPI.COMM_WORLD.Barrier()
with h5py.File(f"part{(rank + 1) % MPI.COMM_WORLD.size}.h5") as file:
    print(rank, int(file["x"][:].sum()))
try:
    h5py.File("all.h5", "w", driver="mpio", comm=MPI.COMM_WORLD)
except ValueError as error:
    print(rank, error)
