"""netCDF4's wheel: files of each rank; it has no parallel files, and says so."""

from mpi4py import MPI
from netCDF4 import Dataset

rank = MPI.COMM_WORLD.rank
with Dataset(f"part{rank}.nc", "w") as data:
    data.createDimension("n", 4)
    data.createVariable("x", "f8", ("n",))[:] = rank
MPI.COMM_WORLD.Barrier()
with Dataset(f"part{(rank + 1) % MPI.COMM_WORLD.size}.nc") as data:
    print(rank, float(data["x"][:].sum()))
try:
    Dataset("all.nc", "w", parallel=True, comm=MPI.COMM_WORLD)
except (ValueError, OSError) as error:
    print(rank, type(error).__name__)
