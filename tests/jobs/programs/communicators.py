"""A mixed job of four procs or more: all kinds of communicators, and their collectives.

Rank 0 prints "all right".
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size


def ring(some: MPI.Comm) -> None:
    """Everybody of it can be reached."""
    me, n = some.rank, some.size
    assert some.sendrecv((me, n), (me + 1) % n, source=(me - 1) % n) == (
        (me - 1) % n,
        n,
    )


def intercomm() -> MPI.Intercomm:
    """The even ranks and the odd ones."""
    odd = rank % 2
    half = comm.Split(odd, -rank)  # the other way round
    leader = half.size - 1
    other_leader = 0 if odd else 1
    between = half.Create_intercomm(leader, comm, other_leader, 5)
    half.Free()
    return between


def groups_alone() -> None:
    world = comm.Get_group()
    first = world.Incl([2, 0])
    if rank in (0, 2):
        pair = comm.Create_group(first)
        assert (pair.rank, pair.size) == (0 if rank == 2 else 1, 2)
        ring(pair)
        again = MPI.Intracomm.Create_from_group(first)
        ring(again)
        again.Free()
        pair.Free()
    try:
        MPI.COMM_SELF.Create_group(world)
        raise AssertionError("a group of strangers")
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_GROUP


def between_groups() -> None:
    between = intercomm()
    evens, odds = list(range(0, size, 2))[::-1], list(range(1, size, 2))[::-1]
    mine, theirs = (odds, evens) if rank % 2 else (evens, odds)
    assert (between.size, between.remote_size, between.rank) == (
        len(mine),
        len(theirs),
        mine.index(rank),
    )
    assert between.Get_remote_group().Translate_ranks() == theirs
    for n in (1, 3000):
        got = np.zeros((len(theirs), n), "i")
        between.Allgather(np.full(n, rank, "i"), got)
        assert got[:, -1].tolist() == theirs
        total = np.zeros(n, "i")
        between.Allreduce(np.full(n, rank, "i"), total)
        assert total[0] == sum(theirs)
        root = 0 if rank % 2 else MPI.ROOT if between.rank == 0 else MPI.PROC_NULL
        gathered = np.zeros((len(theirs), n), "i")
        between.Gather(
            np.full(n, rank, "i"), gathered if root == MPI.ROOT else None, root
        )
        assert root != MPI.ROOT or gathered[:, 0].tolist() == theirs
        data = np.full(n, 7, "i") if root == MPI.ROOT else np.zeros(n, "i")
        between.Bcast(data, root)
        assert data[0] == (7 if root in (MPI.ROOT, 0) else 0)
    assert between.alltoall([(rank, r) for r in range(len(theirs))]) == [
        (r, between.rank) for r in theirs
    ]
    between.Barrier()
    copy = between.Dup()
    merged = copy.Merge(high=bool(rank % 2))
    assert merged.allgather(rank) == evens + odds
    ring(merged)
    merged.Free()
    # Without a wish the group whose first process is lower comes first.
    merged = copy.Merge()
    assert merged.allgather(rank) == (
        evens + odds if evens[0] < odds[0] else odds + evens
    )
    merged.Free()
    part = copy.Split(between.rank == 0)
    firsts = part.remote_group.Translate_ranks() if part else None
    assert firsts == (theirs[:1] if between.rank == 0 else theirs[1:] or None)
    if part:
        part.Free()
    copy.Free()
    between.Free()


def grids() -> None:
    grid = comm.Create_cart([2, size // 2], [False, True])
    if grid == MPI.COMM_NULL:
        assert rank >= size // 2 * 2
    else:
        assert type(grid) is MPI.Cartcomm
        down, up = grid.Shift(0, 1)
        got = grid.neighbor_alltoall([(rank, i) for i in range(4)])
        west, east = grid.Shift(1, 1)
        # Data sent down comes to the lower neighbour from above, even to itself.
        expected = [
            None if r < 0 else (r, i ^ 1) for i, r in enumerate((down, up, west, east))
        ]
        assert got == expected, (got, expected)
        row = grid.Sub([False, True])
        assert (row.ndim, row.size) == (1, size // 2)
        ring(row)
        copy = grid.Dup()
        assert copy.Get_topo() == grid.Get_topo()
        for some in (copy, row, grid):
            some.Free()
    graph = comm.Create_dist_graph([rank], [1], [right])
    assert graph.Get_dist_neighbors() == ([left], [right], None)
    into = np.zeros(1, "i")
    graph.Neighbor_allgather(np.array([rank], "i"), into)
    assert into[0] == left
    graph.Free()


def started_together() -> None:
    """Simultaneous collectives of a communicator, on buffers that show their owner."""
    totals = [np.zeros(1, "i") for _ in range(20)]
    values = [np.full(1, 100 * i if rank == i % size else 0, "i") for i in range(20)]
    copies = [np.array([i if rank == i % size else -1], "i") for i in range(20)]
    requests = []
    for i in range(20):
        requests.append(comm.Iallreduce(values[i], totals[i]))
        requests.append(comm.Ibcast(copies[i], root=i % size))
        requests.append(comm.Ibarrier())
    assert comm.allreduce(1) == size  # a blocking one waits for its turn
    MPI.Request.Waitall(requests[::-1])
    assert [int(total[0]) for total in totals] == [100 * i for i in range(20)]
    assert [int(value[0]) for value in copies] == list(range(20))
    data, total = np.zeros(1, "i"), np.zeros(1, "i")
    persistent = comm.Allreduce_init(data, total)
    for i in range(3):
        data[0] = i
        persistent.Start()
        persistent.Wait()
        assert total[0] == i * size
    persistent.Free()


def duplicates_started_in_other_orders() -> None:
    """Non-blocking duplicates of two communicators, begun in an order of one's own."""
    ones = [comm.Dup(), comm.Split(0, -rank)]
    for _ in range(3):
        order = ones if rank % 2 else ones[::-1]
        started = {id(one): one.Idup() for one in order}
        copies = [started[id(one)] for one in ones]
        MPI.Request.Waitall([request for _, request in copies])
        for one, (copy, _) in zip(ones, copies, strict=True):
            assert MPI.Comm.Compare(one, copy) == MPI.CONGRUENT
            ring(copy)
            twice, request = copy.Idup()
            request.Wait()
            ring(twice)
            twice.Free()
            copy.Free()
    for one in ones:
        one.Free()


def a_duplicate_of_a_duplicate_does_not_wait() -> None:
    """Rank 0 begins it before anybody else does, and goes on."""
    copy, request = comm.Idup()
    request.Wait()
    if rank == 0:
        twice, request = copy.Idup()
        for other in range(1, size):
            comm.send("begun", other, 77)
    else:
        comm.recv(source=0, tag=77)
        twice, request = copy.Idup()
    request.Wait()
    ring(twice)
    twice.Free()
    copy.Free()


def a_bad_send_leaves_nothing_behind() -> None:
    """A receive that was posted for it would take the next message."""
    try:
        comm.Sendrecv([bytearray(1), 1, 2, 3, 4], right, 9, bytearray(1), left, 9)
        raise AssertionError("no buffer")
    except ValueError:
        pass
    got = bytearray(1)
    comm.Sendrecv(bytes([rank]), right, 9, got, left, 9)
    assert got[0] == left


def partitions() -> None:
    """Each side chooses its number of partitions; an ordinary receive does not see them."""
    data, got = np.zeros(12, "i"), np.zeros(12, "i")
    sending = comm.Psend_init([data, 4, MPI.INT], 3, right, 3)
    receiving = comm.Precv_init([got, 3, MPI.INT], 4, left, 3)
    for i in range(2):
        receiving.Start()
        sending.Start()
        for part in (2, 0, 1):
            data[4 * part : 4 * part + 4] = 10 * rank + i
            sending.Pready(part)
        assert not comm.Iprobe(left, 3)
        MPI.Request.Waitall([sending, receiving])
        assert (got == 10 * left + i).all()
    sending.Free()
    receiving.Free()


for check in (
    groups_alone,
    between_groups,
    grids,
    started_together,
    duplicates_started_in_other_orders,
    a_duplicate_of_a_duplicate_does_not_wait,
    a_bad_send_leaves_nothing_behind,
    partitions,
):
    check()
    comm.Barrier()
if rank == 0:
    print("all right")
sys.stdout.flush()
