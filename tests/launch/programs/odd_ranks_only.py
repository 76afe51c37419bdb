"""Only procs with an odd number under their launcher begin to use MPI."""

import json
import os
import time

number = (
    os.environ.get("PMI_RANK")
    or os.environ.get("PMIX_RANK")
    or str(json.loads(os.environ["IMPI_JOIN"])["rank"])
)
if int(number) % 2:
    from mpi4py import MPI

    print(MPI.COMM_WORLD.size)
elif "STAY" in os.environ:
    time.sleep(600)
