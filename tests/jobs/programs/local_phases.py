"""Local phases use the library's collectives: counted, and right beside other calls."""

import numpy
from mpi4py import MPI

from impi.rank.api import runtime

world = MPI.COMM_WORLD
vendor = runtime.engine().vendor
home = world.Split(world.Get_attr(MPI.IMPI_CLIENT_COLOR))
own = home.size if vendor.world.collectives is not None and home.size > 1 else 0


def calls(operation):
    """How many calls of the vendor that move octets an operation makes here."""
    before = vendor.messages
    result = operation()
    return vendor.messages - before, result


def expect(what, operation, phases):
    made, _ = calls(operation)
    assert not own or made == phases, (
        f"{what} at rank {world.rank}: {made} calls, not {phases}"
    )


one, all_of = numpy.full(3, world.rank + 1.0), numpy.zeros(3)
expect("barrier", world.Barrier, 2)
expect("barrier at home", home.Barrier, 1)
expect("bcast", lambda: world.Bcast(all_of, world.size - 1), 1)
expect("allreduce", lambda: world.Allreduce(one, all_of), 2)
assert (all_of == sum(range(1, world.size + 1))).all()
expect("allreduce at home", lambda: home.Allreduce(MPI.IN_PLACE, one.copy()), 1)
everybody = numpy.zeros(world.size, "i")
expect(
    "allgather", lambda: world.Allgather(numpy.array([world.rank], "i"), everybody), 2
)
assert list(everybody) == list(range(world.size))

# Several under way at once, of several communicators, while a message waits to be received.
note = world.isend("note", (world.rank + 1) % world.size)
sums = [numpy.zeros(1) for _ in range(6)]
requests = []
for index, into in enumerate(sums):
    comm = (world, home)[index % 2]
    requests += [comm.Iallreduce(numpy.ones(1), into), comm.Ibarrier()]
MPI.Request.Waitall(requests[::-1])
assert [int(into[0]) for into in sums] == [world.size, home.size] * 3
assert world.recv(source=(world.rank - 1) % world.size) == "note"
note.wait()

# Values that no library knows: own operations, pairs, and elements of other widths.


def times(invec, inoutvec, datatype):
    """Multiply, as an operation of the program's own."""
    numpy.multiply(
        numpy.frombuffer(invec, "d"),
        numpy.frombuffer(inoutvec, "d"),
        numpy.frombuffer(inoutvec, "d"),
    )


product = MPI.Op.Create(times, True)
twos = numpy.full(1, 2.0)
world.Allreduce(twos.copy(), twos, product)
assert twos[0] == 2.0**world.size
pair = numpy.array(
    [(world.rank % 2, world.rank)], numpy.dtype([("a", "f8"), ("b", "i4")], align=True)
)
found = numpy.zeros_like(pair)
world.Allreduce([pair, 1, MPI.DOUBLE_INT], [found, 1, MPI.DOUBLE_INT], MPI.MAXLOC)
assert tuple(found[0]) == (1.0, 1)
halves = numpy.full(2, 0.5, "g")
world.Allreduce(MPI.IN_PLACE, halves, MPI.SUM)
assert halves[0] == world.size / 2
if world.rank == 0:
    print("all right")
