"""Calls that need no numpy never load it. Rank 0 prints "all right"."""

import sys
from array import array

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
right, left = (rank + 1) % size, (rank - 1) % size
TYPES = (
    # By IMPI 0.0 alone a long has fewer octets on the wire than in memory, and is numpy's affair.
    *([] if "0.0" in sys.argv else [(MPI.LONG, "l")]),
    (MPI.SHORT, "h"),
    (MPI.INT, "i"),
    (MPI.LONG_LONG, "q"),
    (MPI.UNSIGNED, "I"),
    (MPI.FLOAT, "f"),
    (MPI.DOUBLE, "d"),
)


def pattern(code: str, count: int, source: int) -> "array[int] | array[float]":
    return array(code, [(i * 7 + source) % 100 for i in range(count)])


def exchange() -> None:
    for count in (0, 1, 3, 100_000):
        for datatype, code in TYPES:
            into = array(code, bytes(array(code).itemsize * count))
            comm.Sendrecv(
                [pattern(code, count, rank), datatype],
                right,
                1,
                [into, datatype],
                left,
                1,
            )
            assert into == pattern(code, count, left), (datatype.name, count)
            # Without a type; with room to spare.
            more = array(code, bytes(array(code).itemsize * (count + 5)))
            status = MPI.Status()
            request = comm.Isend(pattern(code, count, rank), right, 2)
            comm.Recv(more, left, 2, status)
            request.Wait()
            assert status.Get_count(datatype) == count
            assert more[:count] == pattern(code, count, left)
            assert not any(more[count:])
        octets = bytearray(count)
        comm.Sendrecv(bytes([rank]) * count, right, 3, octets, left, 3)
        assert octets == bytes([left]) * count


def together() -> None:
    comm.Barrier()
    for root in range(size):
        for count in (1, 50_000):
            values = (
                pattern("d", count, root)
                if rank == root
                else array("d", bytes(8 * count))
            )
            comm.Bcast(values, root)
            assert values == pattern("d", count, root)
    all_of_them = array("i", bytes(4 * 3 * size))
    comm.Allgather(pattern("i", 3, rank), all_of_them)
    assert all_of_them == array(
        "i", [n for source in range(size) for n in pattern("i", 3, source)]
    )


def reductions() -> None:
    total = array("i", bytes(12))
    comm.Allreduce(array("i", [rank, 2**31 - 1 if rank == 0 else 1, 5]), total, MPI.SUM)
    # It wraps, as in C
    assert total.tolist() == [
        sum(range(size)),
        (2**31 - 2 + size) % 2**32 - 2**32,
        5 * size,
    ]
    most = array("d", [-rank])
    comm.Allreduce(MPI.IN_PLACE, most, MPI.MAX)
    assert most[0] == 0.0
    before = array("q", [7])
    comm.Scan(array("q", [rank]), before, MPI.SUM)
    assert before[0] == sum(range(rank + 1))
    comm.Reduce(array("i", [rank]), total[:1] if rank == 0 else None, MPI.MIN, 0)
    mine = array("B", [0])
    comm.Reduce_scatter_block(array("B", range(size)), mine, MPI.BOR)
    assert mine[0] == rank


def objects() -> None:
    assert comm.sendrecv({"from": rank}, right, 4, source=left) == {"from": left}
    assert comm.bcast([rank], 0) == [0]
    assert comm.allgather(rank) == list(range(size))
    assert comm.allreduce(rank) == sum(range(size))
    comm.barrier()


assert "numpy" not in sys.modules
exchange()
together()
reductions()
objects()
half = comm.Split(rank % 2, rank)
half.Barrier()
half.Free()
MPI.Finalize()
assert "numpy" not in sys.modules
if rank == 0:
    print("all right")
