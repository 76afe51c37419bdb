"""Equal mistakes of all ranks in a client's collectives spoil no later call."""

import time

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
home = world.Split(world.Get_attr(MPI.IMPI_CLIENT_COLOR))
home.Set_errhandler(MPI.ERRORS_RETURN)
rank, size = home.rank, home.size

# Some come to the calls long before the others.
vector = MPI.INT.Create_vector(2, 1, 2).Commit()
numbers = numpy.zeros(8, "i")
for _ in range(20):
    if rank:
        time.sleep(0.002)
    home.Bcast([numbers, 1, vector], 0)
for _ in range(60):
    try:
        home.Bcast(numbers, 99)
    except MPI.Exception as failure:
        assert failure.Get_error_class() == MPI.ERR_ROOT, failure
    else:
        raise AssertionError("a root that is none went unnoticed")
home.Barrier()
home.Bcast(numbers, 0)

# An operation that is not defined for the datatype, and counts that are not integers.
for wrong, kinds in (
    (lambda: home.Allreduce(numpy.ones(3), numpy.zeros(3), MPI.BAND), MPI.Exception),
    (
        lambda: home.Allgatherv(
            numpy.ones(2), [numpy.zeros(2 * size), [2.0] * size, None, MPI.DOUBLE]
        ),
        TypeError,
    ),
):
    try:
        wrong()
    except kinds:
        pass
    else:
        raise AssertionError("a wrong call went unnoticed")
total = numpy.zeros(3)
home.Allreduce(numpy.ones(3), total)
assert list(total) == [size] * 3

# A non-blocking collective under way comes first, everywhere.
first = numpy.zeros(1)
request = home.Iallreduce(numpy.ones(1), first)
home.Allreduce(numpy.ones(3), total)
assert list(total) == [size] * 3
request.Wait()
assert first[0] == size

world.Barrier()
if world.rank == 0:
    print("all right")
