"""Five ranks under IMPI_VERIFY: misfit calls, and each rank's news. Rank 0: "all right"."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
me = world.rank
# The paper's examples are of three processes: here of three clients.
three = world.Split(0 if me % 2 == 0 else 1, me)
rank, size = three.rank, three.size
INT = 4


def ints(count: int) -> Any:
    return np.zeros(count, "i")


def refused(call: Callable[[], object], error: int, *sentences: str) -> None:
    """Everybody is told all sentences; afterwards the communicator is as good as before."""
    try:
        call()
    except MPI.Exception as raised:
        assert raised.Get_error_class() == error, raised
        assert str(raised).partition(": VERIFY ")[2] == "; VERIFY ".join(sentences), (
            raised
        )
    else:
        raise AssertionError(f"nobody said {sentences}")
    three.Barrier()


def examples() -> None:
    refused(
        lambda: (
            three.Gather(ints(1), ints(3), 0)
            if rank == 0
            else three.Scatter(ints(3), ints(1), 0)
        ),
        MPI.ERR_OTHER,
        "MPI_SCATTER(1): call inconsistent with call to MPI_Gather by 0",
        "MPI_SCATTER(2): call inconsistent with call to MPI_Gather by 0",
    )
    refused(
        lambda: three.Gather(ints(1), ints(3), 2 if rank == 2 else 0),
        MPI.ERR_ROOT,
        "MPI_GATHER(2): root 2 inconsistent with root 0 of 0",
    )
    wrong = [ints(3), [0, 1, 2], None, MPI.INT]
    sentences = (
        "MPI_ALLTOALLV(0): sendsize[1]=4 > expected recvsize(1)[0]=0",
        "MPI_ALLTOALLV(1): sendsize[0]=0 < expected recvsize(0)[1]=4",
        "MPI_ALLTOALLV(2): sendsize[0]=0 < expected recvsize(0)[2]=8",
    )
    refused(
        lambda: three.Alltoallv(wrong, [ints(3), [0, 1, 2], None, MPI.INT]),
        MPI.ERR_COUNT,
        *sentences,
    )


def example_of_two_groups() -> None:
    low = me < 2
    group = world.Split(int(low), me)
    both = group.Create_intercomm(0, world, 2 if low else 0, 5)
    n = both.size
    try:
        both.Reduce_scatter(np.zeros(n, "b"), np.zeros(1, "b"), [1] * n)
    except MPI.Exception as raised:
        sizes = (2, 3)
        text = f"VERIFY MPI_REDUCE_SCATTER(INTERCOMM): scattersize={sizes[0]} != reducesize={sizes[1]}"
        assert text in str(raised), raised
    else:
        raise AssertionError("scattersize and reducesize went unnoticed")
    data = ints(2)
    both.Bcast(data, 1 if not low else MPI.ROOT if both.rank == 1 else MPI.PROC_NULL)
    both.Allgather(ints(1), ints(both.remote_size))
    both.Barrier()
    assert both.allgather(low) == [not low] * both.remote_size
    try:
        both.Merge(not low and both.rank == 0)
    except MPI.Exception as raised:
        assert (
            "VERIFY MPI_INTERCOMM_MERGE(1): high False inconsistent with high True of 0"
            in str(raised)
        ), raised
    else:
        raise AssertionError("high went unnoticed")
    both.Merge(low).Free()
    both.Free()
    group.Free()


def arguments() -> None:
    odd = rank == 1
    upper = "ALLREDUCE(1)"
    refused(
        lambda: three.Allreduce(ints(1), ints(1), MPI.MAX if odd else MPI.SUM),
        MPI.ERR_OP,
        f"MPI_{upper}: op MPI_MAX inconsistent with op MPI_SUM of 0",
    )
    refused(
        lambda: three.Allreduce(
            np.zeros(1, "f" if odd else "i"), np.zeros(1, "f" if odd else "i")
        ),
        MPI.ERR_TYPE,
        f"MPI_{upper}: datatype float32 inconsistent with datatype int32 of 0",
    )
    refused(
        lambda: three.Allreduce(MPI.IN_PLACE if odd else ints(1), ints(1)),
        MPI.ERR_BUFFER,
        f"MPI_{upper}: MPI_IN_PLACE inconsistent with no MPI_IN_PLACE of 0",
    )
    refused(
        lambda: three.Allreduce(ints(2 if odd else 1), ints(2 if odd else 1)),
        MPI.ERR_COUNT,
        f"MPI_{upper}: datasize 8 inconsistent with datasize 4 of 0",
    )
    refused(
        lambda: three.Bcast(ints(3 if odd else 2), 0),
        MPI.ERR_COUNT,
        "MPI_BCAST(1): recvsize=12 > expected sendsize(0)=8",
    )
    refused(
        lambda: three.Ibcast(ints(3 if odd else 2), 0).Wait(),
        MPI.ERR_COUNT,
        "MPI_IBCAST(1): recvsize=12 > expected sendsize(0)=8",
    )
    persistent = three.Bcast_init(ints(3 if odd else 2), 0)

    def again() -> None:
        persistent.Start()
        persistent.Wait()

    refused(
        again, MPI.ERR_COUNT, "MPI_BCAST_INIT(1): recvsize=12 > expected sendsize(0)=8"
    )
    refused(
        lambda: three.Reduce_scatter(ints(3), ints(1), None if odd else [1, 1, 1]),
        MPI.ERR_ARG,
        "MPI_REDUCE_SCATTER(1): recvcounts inferred inconsistent with recvcounts given of 0",
    )
    refused(
        lambda: three.Ibarrier().Wait() if odd else three.Barrier(),
        MPI.ERR_OTHER,
        "MPI_IBARRIER(1): call inconsistent with call to MPI_Barrier by 0",
    )
    refused(
        lambda: three.bcast("x", 1) if odd else three.Bcast(ints(1), 1),
        MPI.ERR_OTHER,
        "MPI_BCAST[OBJECT](1): call inconsistent with call to MPI_Bcast by 0",
    )
    refused(
        lambda: three.allreduce(1, MPI.MAX if odd else MPI.SUM),
        MPI.ERR_OP,
        "MPI_ALLREDUCE[OBJECT](1): op MPI_MAX inconsistent with op MPI_SUM of 0",
    )
    refused(
        lambda: three.Create_cart([1, 3] if odd else [3, 1]),
        MPI.ERR_DIMS,
        "MPI_CART_CREATE(1): dims [1, 3] inconsistent with dims [3, 1] of 0",
    )
    refused(
        lambda: three.Dup() if odd else three.Split(0),
        MPI.ERR_OTHER,
        "MPI_COMM_DUP(1): call inconsistent with call to MPI_Comm_split by 0",
    )
    group = three.Get_group()
    refused(
        lambda: three.Create(group.Incl([1, 0] if odd else [0, 1])),
        MPI.ERR_GROUP,
        "MPI_COMM_CREATE(0): group [0, 1] inconsistent with group [1, 0] of 1",
        "MPI_COMM_CREATE(1): group [1, 0] inconsistent with group [0, 1] of 0",
        "MPI_COMM_CREATE(2): group [0, 1] inconsistent with group [1, 0] of 1",
    )


def the_error_handler_is_called_everywhere() -> None:
    seen: list[int] = []
    handler = MPI.Comm.Create_errhandler(lambda comm, code: seen.append(code))
    three.Set_errhandler(handler)
    refused(
        lambda: three.Bcast(ints(1), rank),
        MPI.ERR_ROOT,
        *(f"MPI_BCAST({r}): root {r} inconsistent with root 0 of 0" for r in (1, 2)),
    )
    assert seen == [MPI.ERR_ROOT]
    three.Set_errhandler(MPI.ERRORS_RETURN)
    handler.Free()


def who_cannot_take_part_tells_why() -> None:
    def call() -> None:
        three.Gather(MPI.IN_PLACE if rank == 1 else ints(1), ints(3), 0)

    text = "MPI_GATHER(1): IN_PLACE is allowed at the root only"
    if rank == 1:
        try:
            call()
        except MPI.Exception as raised:
            assert raised.Get_error_class() == MPI.ERR_BUFFER
        three.Barrier()
    else:
        refused(call, MPI.ERR_OTHER, text)


def info() -> None:
    hints = MPI.Info.Create({"a": str(rank == 1)})
    if sys.argv[1] >= "3":
        text = "MPI_COMM_DUP_WITH_INFO(1): info {'a': 'True'} inconsistent with info {'a': 'False'} of 0"
        refused(lambda: three.Dup(hints), MPI.ERR_INFO, text)
    else:
        three.Dup(hints).Free()


def right_calls() -> None:
    """Right calls are not refused."""
    data = np.full(size, rank, "i")
    for comm in (three, three.Dup()):
        for root in range(size):
            comm.Bcast(data, root)
            comm.Gather(
                MPI.IN_PLACE if rank == root else ints(1),
                ints(size) if rank == root else None,
                root,
            )
            comm.Scatter(ints(size), MPI.IN_PLACE if rank == root else ints(1), root)
            comm.Gatherv(
                ints(rank),
                [ints(size), [0, 1, 2][:size]] if rank == root else None,
                root,
            )
            comm.Scatterv([ints(size), [0, 1, 2][:size]], ints(rank), root)
            comm.Reduce(
                MPI.IN_PLACE if rank == root else ints(2),
                ints(2) if rank == root else None,
                MPI.SUM,
                root,
            )
            comm.scatter(range(size), root)
            comm.reduce(1, lambda a, b: a + b, root)
        comm.Allgather(MPI.IN_PLACE, data)
        comm.Allgatherv(ints(rank), [ints(size), [0, 1, 2][:size]])
        comm.Alltoall(MPI.IN_PLACE, data)
        comm.Alltoallw(
            [ints(size), [1] * size, [0] * size, [MPI.INT] * size],
            [ints(size), [1] * size, [4 * i for i in range(size)], [MPI.INT] * size],
        )
        comm.Reduce_scatter_block(ints(size), ints(1))
        comm.Reduce_scatter(ints(size), ints(1), [1] * size)
        comm.Reduce_scatter(ints(size), ints(1))
        comm.Scan(ints(1), ints(1))
        comm.Exscan(MPI.IN_PLACE, data)
        op = MPI.Op.Create(lambda a, b, t: None, commute=False)
        comm.Allreduce(ints(1), ints(1), op)
        pair = np.zeros(1, dtype=[("value", "f8"), ("index", "i4"), ("pad", "i4")])
        comm.Allreduce(
            [pair, MPI.DOUBLE_INT], [pair.copy(), MPI.DOUBLE_INT], MPI.MAXLOC
        )
        requests = [
            comm.Ibarrier(),
            comm.Iallreduce(ints(1), ints(1)),
            comm.Ibcast(data, 1),
        ]
        MPI.Request.Waitall(requests)
        copy, request = comm.Idup()
        request.Wait()
        copy.Barrier()
        copy.Free()
    # A non-blocking operation does not wait for others, though it is verified.
    if rank == 0:
        request = three.Ibcast(data, 0)
        three.send("now", 1)
        request.Wait()
    else:
        if rank == 1:
            three.recv(source=0)
        three.Ibcast(data, 0).Wait()
    ring = three.Create_cart([size], [True])
    ring.neighbor_alltoall([1, 2])
    ring.Neighbor_allgather(ints(1), ints(2))
    ring.Disconnect()
    three.Split_type(MPI.COMM_TYPE_SHARED).Free()
    three.Create(three.Get_group().Incl([0])) if rank == 0 else three.Create(
        three.Get_group().Excl([0])
    )


if size == 3:
    examples()
    arguments()
    the_error_handler_is_called_everywhere()
    who_cannot_take_part_tells_why()
    info()
right_calls()
example_of_two_groups()
world.Barrier()
if me == 0:
    print("all right")
