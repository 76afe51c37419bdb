"""pytimings: measures of all ranks in one file."""

import io

from mpi4py import MPI
from pytimings.timer import Timings

timings = Timings()
for name in ("first", "second"):
    timings.start(name)
    timings.stop(name)
out = io.StringIO()
timings.output_all_measures(out)
if MPI.COMM_WORLD.rank == 0:
    print(out.getvalue().splitlines()[0])
print(MPI.COMM_WORLD.rank, timings.walltime("first") >= 0)
