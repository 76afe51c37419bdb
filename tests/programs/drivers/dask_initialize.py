"""dask-mpi: rank 0 is the scheduler, rank 1 the client, the others work."""

import dask
from dask.distributed import Client
from dask_mpi import initialize

dask.config.set({"distributed.comm.timeouts.connect": "60s"})
initialize(interface="lo", nthreads=1, dashboard=False, exit=True)
with Client() as client:
    client.wait_for_workers(2, timeout=60)
    print(client.gather(client.map(lambda n: n * n, range(20))))
    print(client.submit(sum, client.map(abs, range(-5, 5))).result())
