"""dask-mpi: the same by execute, whose function runs on rank 1."""

from dask.distributed import Client
from dask_mpi import execute


def work():
    with Client() as client:
        print(sum(client.gather(client.map(lambda n: 3 * n, range(10)))))


execute(work, interface="lo", nthreads=1, dashboard=False)
