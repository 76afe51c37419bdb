"""pshmem: a lock of all ranks, which needs a window."""

from mpi4py import MPI
from pshmem import MPILock

with MPILock(MPI.COMM_WORLD) as lock:
    lock.lock()
    print("locked by", MPI.COMM_WORLD.rank, flush=True)
    lock.unlock()
