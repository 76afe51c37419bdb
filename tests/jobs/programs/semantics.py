"""The API's promises in a mixed job, asserted on the spot. Rank 0 prints "all right".

Arguments: how many clients there are, and the host of each rank ("0,0,1") where not every proc is
its own.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size
datalen = 256 * 1024


def modes_and_sizes() -> None:
    for nbytes in (0, 1, 1000, datalen - 1, datalen, datalen + 1, 3 * datalen + 7):
        data = np.full(nbytes, rank, np.uint8)
        for mode in (comm.Isend, comm.Issend, comm.Irsend):
            got = np.empty(nbytes, np.uint8)
            request = comm.Irecv(got, left, 11)
            comm.Barrier()  # a ready send needs its receive posted
            sent = mode(data, right, 11)
            status = MPI.Status()
            request.Wait(status)
            sent.Wait()
            assert (got == left).all()
            assert (status.source, status.tag, status.count) == (left, 11, nbytes)


def types() -> None:
    for dtype in (
        "b",
        "h",
        "i",
        "l",
        "q",
        "B",
        "H",
        "I",
        "L",
        "Q",
        "f",
        "d",
        "F",
        "D",
        "?",
        "g",
    ):
        data = np.arange(5).astype(dtype)
        got = np.zeros(5, dtype)
        comm.Sendrecv(data, right, 1, got, left, 1)
        assert (got == data).all(), dtype
    big = np.array([2**40 + 7, -1, -(2**62)], np.int64)
    got = np.zeros(3, np.int64)
    comm.Sendrecv(big, right, 1, got, left, 1)
    assert (got == big).all()
    got[:] = 0
    comm.Allreduce(np.array([rank, 2**40, 1], np.int64), got, MPI.SUM)
    assert got.tolist() == [size * (size - 1) // 2, size * 2**40, size]


def wildcards_and_order() -> None:
    if rank == 0:
        seen = dict.fromkeys(range(1, size), -1)
        status = MPI.Status()
        for _ in range(20 * (size - 1)):
            comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
            source, tag = status.source, status.tag
            value = comm.recv(source=source, tag=tag)
            assert value == (source, tag)
            # Messages of one pair do not overtake each other
            assert tag == seen[source] + 1
            seen[source] = tag
        assert not comm.Iprobe()
    else:
        for i in range(20):
            comm.send((rank, i), 0, tag=i)
    comm.Barrier()


def completion() -> None:
    requests = [comm.isend(rank, other, 5) for other in range(size)]
    receives = [comm.irecv(source=other, tag=5) for other in range(size)]
    assert MPI.Request.waitall(receives) == list(range(size))
    MPI.Request.Waitall(requests)
    assert MPI.Request.Waitany([MPI.REQUEST_NULL]) == MPI.UNDEFINED
    request = comm.irecv(source=left, tag=6)
    assert request.test()[0] is False
    comm.Barrier()
    comm.send("late", right, 6)
    flag, value = request.test()
    while not flag:
        flag, value = request.test()
    assert value == "late"
    comm.Barrier()
    small = np.zeros(2, "i")
    comm.Send(np.arange(4, dtype="i"), right, 7)
    try:
        comm.Recv(small, left, 7)
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_TRUNCATE
    else:
        raise AssertionError("a truncated message went unnoticed")


def buffers() -> None:
    for root in range(size):
        data = np.arange(1000.0) * (root + 1)
        buf = data.copy() if rank == root else np.zeros(1000)
        comm.Bcast(buf, root)
        assert (buf == data).all()
        for n in (3, 1000):
            mine = np.full(n, rank, "d")
            all_of = np.empty((size, n)) if rank == root else None
            comm.Gather(mine, all_of, root)
            if rank == root:
                assert (all_of == np.arange(size)[:, None]).all()
            comm.Scatter(all_of, mine, root)
            assert (mine == rank).all()
        total = np.zeros(2) if rank == root else None
        comm.Reduce(np.array([1.0, rank]), total, MPI.SUM, root)
        if rank == root:
            assert total.tolist() == [size, size * (size - 1) / 2]
    everything = np.empty((size, 2), "i")
    comm.Allgather(np.array([rank, -rank], "i"), everything)
    assert everything[:, 0].tolist() == list(range(size))
    parts = np.empty(size * (size - 1) // 2, "i")
    comm.Allgatherv(np.full(rank, rank, "i"), [parts, range(size)])
    assert parts.tolist() == [r for r in range(size) for _ in range(r)]
    given = np.array([100 * rank + i for i in range(size)], "i")
    taken = np.empty(size, "i")
    comm.Alltoall(given, taken)
    assert taken.tolist() == [100 * i + rank for i in range(size)]
    for op, want in (
        (MPI.MAX, size - 1),
        (MPI.MIN, 0),
        (MPI.BOR, np.bitwise_or.reduce(np.arange(size))),
    ):
        result = np.empty(1, "i")
        comm.Allreduce(np.array([rank], "i"), result, op)
        assert result[0] == want
    pair = np.zeros(1, dtype=[("value", "f8"), ("index", "i4"), ("pad", "i4")])
    mine = np.array([((rank * 7) % size, rank, 0)], pair.dtype)
    comm.Allreduce([mine, MPI.DOUBLE_INT], [pair, MPI.DOUBLE_INT], MPI.MAXLOC)
    assert pair["value"][0] == max((r * 7) % size for r in range(size))


def objects() -> None:
    assert comm.bcast({"from": 0} if rank == 0 else None) == {"from": 0}
    assert comm.gather(rank * "x", root=size - 1) == (
        ["x" * r for r in range(size)] if rank == size - 1 else None
    )
    assert comm.scatter([str(r) for r in range(size)] if rank == 0 else None) == str(
        rank
    )
    assert comm.allgather((rank,)) == [(r,) for r in range(size)]
    assert comm.alltoall([(rank, r) for r in range(size)]) == [
        (r, rank) for r in range(size)
    ]
    assert comm.allreduce(str(rank)) == "".join(str(r) for r in range(size))
    assert comm.reduce(rank, MPI.MAX, 1) == (size - 1 if rank == 1 else None)
    assert comm.allreduce([rank], lambda a, b: a + b) == list(range(size))


def communicators() -> None:
    clients, mine = (
        comm.Get_attr(MPI.IMPI_CLIENT_SIZE),
        comm.Get_attr(MPI.IMPI_CLIENT_COLOR),
    )
    assert clients == int(sys.argv[1])
    hosts = (
        [int(host) for host in sys.argv[2].split(",")]
        if len(sys.argv) > 2
        else list(range(size))
    )
    assert comm.Get_attr(MPI.IMPI_HOST_SIZE) == len(set(hosts))
    assert comm.Get_attr(MPI.IMPI_HOST_COLOR) == hosts[rank]
    local = comm.Split(mine, rank)
    assert local.Get_attr(MPI.IMPI_CLIENT_SIZE) == 1
    assert local.allreduce(1) == comm.allgather(mine).count(mine)
    backwards = comm.Split(0, -rank)
    assert backwards.rank == size - 1 - rank
    assert backwards.allgather(rank) == list(reversed(range(size)))
    other = comm.Dup()
    comm.send("on world", right, 3)
    other.send("on dup", right, 3)
    assert other.recv(source=left, tag=3) == "on dup"
    assert comm.recv(source=left, tag=3) == "on world"
    nobody = comm.Split(MPI.UNDEFINED if rank == 0 else 1, 0)
    assert (nobody == MPI.COMM_NULL) == (rank == 0)
    for made in (local, backwards, other):
        made.Free()
    assert MPI.COMM_SELF.size == 1
    assert MPI.COMM_SELF.sendrecv("me", 0, source=0) == "me"
    assert comm.Get_attr(MPI.TAG_UB) >= 32767


for check in (
    modes_and_sizes,
    types,
    wildcards_and_order,
    completion,
    buffers,
    objects,
    communicators,
):
    check()
    comm.Barrier()
if rank == 0:
    print("all right")
MPI.Finalize()
