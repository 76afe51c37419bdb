"""mpipool: an executor whose workers are ranks."""

from mpipool import MPIExecutor


def square(n):
    return n * n


with MPIExecutor() as pool:
    pool.workers_exit()
    print(list(pool.map(square, range(12))))
