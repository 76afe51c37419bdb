"""Communicators freed in different orders and with a receive under way, as MPICH's own tests do."""

import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size, last = world.rank, world.size, world.size - 1
ROOM = 1000


def overlapping() -> None:
    """Each rank shares a communicator with each neighbour, and frees its own one first."""
    for i in range(size):
        part = world.Split(0 if rank in (i, (i + 1) % size) else 1)
        if rank == i:
            mine = part
        elif rank == (i + 1) % size:
            neighbours = part
        else:
            part.Free()
    pairs = [mine.Idup(), neighbours.Idup()]
    MPI.Request.Waitall([request for _, request in pairs])
    for comm in (mine, neighbours, *(copy for copy, _ in pairs)):
        comm.Free()
        assert comm == MPI.COMM_NULL


def receiving() -> None:
    """The last rank frees a communicator before its message is sent."""
    comm = world.Dup()
    into = array.array("i", [-1] * ROOM)
    if rank == last:
        request = comm.Irecv(into, 0, 7)
        comm.Free()
        others = [world.Split(0, -rank) for _ in range(3)]
        world.Sendrecv(b"", 0, 1, bytearray(), 0, 1)
        request.Wait()
        assert into == array.array("i", range(ROOM))
    else:
        others = [world.Split(0, -rank) for _ in range(3)]
        if rank == 0:
            world.Sendrecv(b"", last, 1, bytearray(), last, 1)
            comm.Send(array.array("i", range(ROOM)), last, 7)
        comm.Free()
    for other in others:
        other.Free()


overlapping()
receiving()
both = world.Dup()
both.Disconnect()
world.Barrier()
if rank == 0:
    print("all right")
