"""tqdm: a bar of rank 0 around a loop of collectives."""

import io

from mpi4py import MPI
from tqdm import tqdm

world = MPI.COMM_WORLD
out = io.StringIO()
total = 0
for n in tqdm(range(10), file=out, disable=world.rank != 0):
    total += world.allreduce(n)
if world.rank == 0:
    print(total, "10/10" in out.getvalue())
