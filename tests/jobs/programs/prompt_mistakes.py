"""What is wrong in a collective inside one client, at one rank or at all, neither hangs nor spoils what follows."""

import time

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
colour = world.Get_attr(MPI.IMPI_CLIENT_COLOR)


def fresh():
    """A communicator of this client, whose errors are exceptions."""
    comm = world.Split(colour)
    comm.Set_errhandler(MPI.ERRORS_RETURN)
    return comm


home, some, late, told = fresh(), fresh(), fresh(), fresh()
rank, size = home.rank, home.size

# Memory that is sent and received at once, which libraries refuse, at the root alone: all get the right sums after it.
for count in (4, 300_000):
    for number in range(3):
        mine, into = numpy.full(count, 10 * number + rank, "i8"), numpy.zeros(count, "i8")
        alias = rank == 0 and number == 0
        home.Reduce(mine, mine[:] if alias else into, MPI.SUM, 0)
        if rank == 0:
            got = mine if alias else into
            assert (got == sum(10 * number + r for r in range(size))).all(), (count, number, got[:3])

# The own slice of what is gathered.
for make in (lambda n: numpy.zeros(n, "i8"), lambda n: memoryview(bytearray(8 * n)).cast("q")):
    whole = make(2 * size)
    own = whole[2 * rank : 2 * rank + 2]
    own[0], own[1] = 100 + rank, 200 + rank
    home.Allgather([own, MPI.INT64_T], [whole, 2, MPI.INT64_T])
    assert [int(value) for value in whole] == [v for r in range(size) for v in (100 + r, 200 + r)]

# Counts that do not match.
if size == 2:
    long, none = 6 << 20, [0, 0]
    sent, room = numpy.zeros(long, "b"), numpy.zeros(long, "b")
    if rank == 0:
        some.Alltoallv([sent, [0, long], [0, 0], MPI.BYTE], [room, none, none, MPI.BYTE])
    else:
        try:
            some.Alltoallv([sent, none, none, MPI.BYTE], [room, none, none, MPI.BYTE])
        except MPI.Exception as failure:
            assert failure.Get_error_class() == MPI.ERR_TRUNCATE, failure
        else:
            raise AssertionError("counts that do not match went unnoticed")

# Calls that are wrong everywhere alike, made long before the others have come to them.
vector = MPI.INT.Create_vector(2, 1, 2).Commit()
numbers = numpy.zeros(8, "i")
for _ in range(20):
    if rank:
        time.sleep(0.002)
    late.Bcast([numbers, 1, vector], 0)
for _ in range(60):
    try:
        late.Bcast(numbers, 99)
    except MPI.Exception as failure:
        assert failure.Get_error_class() == MPI.ERR_ROOT, failure
    else:
        raise AssertionError("a root that is none went unnoticed")
late.Barrier()
late.Bcast(numbers, 0)

# Wrong at one rank alone: all are told, in this and in later ones.
if size > 1:
    told.Barrier()
    for number in range(3):
        try:
            told.Allreduce(numpy.ones(3), numpy.zeros(3 if rank or number else 1))
        except (MPI.Exception, ValueError):
            pass
        else:
            raise AssertionError("a collective that one cannot take part in went unnoticed")

# Counts of another type are not taken for those that are known.
counts, displs = [2] * size, [2 * r for r in range(size)]
into = numpy.zeros(2 * size)
home.Allgatherv(numpy.full(2, rank + 1.0), [into, counts, displs, MPI.DOUBLE])
assert list(into) == [r + 1.0 for r in range(size) for _ in range(2)]
try:
    home.Allgatherv(numpy.full(2, rank + 1.0), [into, [2.0] * size, displs, MPI.DOUBLE])
except TypeError:
    pass
else:
    raise AssertionError("counts that are no integers went unnoticed")

world.Barrier()
if world.rank == 0:
    print("all right")
