"""mpi4py.util.sync: a counter of all ranks, which needs a window."""

from mpi4py import MPI
from mpi4py.util.sync import Counter

counter = Counter(comm=MPI.COMM_WORLD)
values = MPI.COMM_WORLD.gather([counter.next() for _ in range(5)])
counter.free()
if values:
    print(sorted(sum(values, [])))
