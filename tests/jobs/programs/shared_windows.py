"""Shared windows of the procs of a node; each rank prints one word if all is as it must be."""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
node = world.Split_type(MPI.COMM_TYPE_SHARED)
me, size = node.rank, node.size
one = np.ones(1)


def refused(call, code):
    """Check that a call raises an error of a class."""
    try:
        call()
    except MPI.Exception as failure:
        assert failure.Get_error_class() == code, failure
    else:
        raise AssertionError(f"{call} was not refused")


# The procs of the node: as many as the test says, all of one client.
clients = node.allgather(world.Get_attr(MPI.IMPI_CLIENT_COLOR))
assert set(clients) == {clients[0]}
assert size == int(sys.argv[1]), size
if world.size > size:
    refused(lambda: MPI.Win.Allocate_shared(8, comm=world), MPI.ERR_RMA_SHARED)

# One proc has the memory, all use it as an array.
win = MPI.Win.Allocate_shared(800 if me == 0 else 0, 8, comm=node)
buffer, unit = win.Shared_query(0)
array = np.ndarray(buffer=buffer, dtype="d", shape=(100,))
assert (unit, array.sum()) == (8, 0)
win.Fence()
if me == size - 1:
    array[:] = np.arange(100)
win.Fence()
assert array.sum() == 4950
assert (
    win.Get_attr(MPI.WIN_SIZE) == (800 if me == 0 else 0)
    and win.flavor == MPI.WIN_FLAVOR_SHARED
)
assert win.Shared_query(MPI.PROC_NULL)[0].address == buffer.address
assert MPI.Group.Compare(win.group, node.group) == MPI.IDENT
refused(lambda: win.Shared_query(size), MPI.ERR_RANK)

# Exclusive locks exclude: nobody ever sees the -1 of another.
node.Barrier()
for _ in range(100):
    win.Lock(0)
    value = array[0]
    assert value >= 0
    array[0] = -1
    array[0] = value + 1
    win.Unlock(0)
node.Barrier()
assert array[0] == 100 * size

# Shared locks share: each holds its own while all the others do.
win.Lock(0, MPI.LOCK_SHARED)
node.Barrier()
win.Unlock(0)
win.Lock_all()
node.Barrier()

# Accumulations of all, at the same time, are exact; so are fetches.
tickets = np.zeros(100)
for i in range(100):
    win.Accumulate(np.full(2, 2.0), 0, 1)
    win.Fetch_and_op(one, tickets[i : i + 1], 0, 3)
win.Flush_all()
win.Unlock_all()
node.Barrier()
assert array[1:3].tolist() == [1 + 200 * size, 2 + 200 * size]
assert sorted(ticket for row in node.allgather(tickets) for ticket in row) == [
    3 + i for i in range(100 * size)
]
node.Barrier()

# A proc that waits for a lock serves its messages.
if me == 0:
    win.Lock(0)
    node.Barrier()
    for rank in range(1, size):
        node.Ssend(one, rank)
    array[9] = 99
    win.Unlock(0)
else:
    here = np.zeros(1)
    request = node.Irecv(here, 0)
    node.Barrier()
    win.Lock(0, MPI.LOCK_SHARED)
    assert array[9] == 99
    win.Unlock(0)
    request.Wait()

# Post, Start, Complete, Wait: each puts to the next one's element of the memory of rank 0.
win.Fence(MPI.MODE_NOSUCCEED)
others = win.group.Excl([0])
if me == 0:
    array[10:] = 0
    win.Post(others)
    while not win.Test():
        pass
    assert array[11 : 10 + size].tolist() == list(range(1, size))
else:
    win.Start(win.group.Incl([0]))
    refused(lambda: win.Put(one, 1), MPI.ERR_RMA_SYNC)
    win.Put(one * me, 0, 10 + me)
    win.Complete()
win.Post(win.group)
win.Start(win.group)
win.Complete()
win.Wait()

# The communicator may be freed first; the memory stays as long as the array.
win.Free()
array[99] = 1
refused(lambda: win.Shared_query(0), MPI.ERR_WIN)

# Contiguous by default: the memory of the ranks is one array.
win = MPI.Win.Allocate_shared(8 * (me + 1), 4 + me, comm=node)
count = size * (size + 1) // 2
whole = np.ndarray(
    buffer=MPI.memory.fromaddress(win.Shared_query(0)[0].address, 8 * count),
    dtype="d",
    shape=(count,),
)
mine = np.ndarray(buffer=win.tomemory(), dtype="d", shape=(me + 1,))
mine[:] = me
win.Sync()
node.Barrier()
win.Sync()
assert whole.tolist() == [rank for rank in range(size) for _ in range(rank + 1)]
assert [win.Shared_query(rank)[1] for rank in range(size)] == [
    4 + rank for rank in range(size)
]
win.Lock_all(MPI.MODE_NOCHECK)
win.Get(one, size - 1)
win.Unlock_all()
assert one[0] == size - 1
win.Free()
win = MPI.Win.Allocate_shared(
    1, 1, MPI.Info.Create({"alloc_shared_noncontig": "true"}), node
)
assert win.Get_attr(MPI.WIN_BASE) % 4096 == 0
win.Free()
win = MPI.Win.Allocate_shared(0, comm=node)
assert len(win.tomemory()) == len(win.Shared_query(MPI.PROC_NULL)[0]) == 0
win.Free()

# If one proc cannot make the window, no proc makes it.
last = me == size - 1
refused(lambda: MPI.Win.Allocate_shared(-1 if last else 8, comm=node), MPI.ERR_SIZE)
refused(lambda: MPI.Win.Allocate_shared(8, 0 if last else 1, comm=node), MPI.ERR_DISP)
refused(
    lambda: MPI.Win.Allocate_shared(1 << 60 if last else 8, comm=node), MPI.ERR_NO_MEM
)
if hasattr(MPI, "IMPI_CLIENT_SIZE"):
    from impi.rank.api.windows.shared import SharedFile

    known = SharedFile.open
    if last:
        setattr(SharedFile, "open", lambda path, nbytes: known(path + "0000", nbytes))
    refused(lambda: MPI.Win.Allocate_shared(8, comm=node), MPI.ERR_NO_MEM)
    setattr(SharedFile, "open", known)
MPI.Win.Allocate_shared(8, comm=node)  # not freed, as in many programs
sys.stdout.write("shared\n")
