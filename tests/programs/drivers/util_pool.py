"""mpi4py.util.pool: the interface of multiprocessing's pool, with ranks as workers."""

from mpi4py import MPI
from mpi4py.futures import MPICommExecutor
from mpi4py.util.pool import Pool


def square(n):
    return n * n


if __name__ == "__main__":
    with MPICommExecutor(MPI.COMM_WORLD) as executor:
        if executor is not None:
            print("executor", sum(executor.map(square, range(100))))
    if MPI.COMM_WORLD.rank == 0:
        print("pool is there:", Pool.__name__)
