"""mpi4py.util.sync: a sequential section, in the order of ranks."""

from mpi4py import MPI
from mpi4py.util.sync import Sequential

with Sequential(MPI.COMM_WORLD):
    print("section of rank", MPI.COMM_WORLD.rank, flush=True)
