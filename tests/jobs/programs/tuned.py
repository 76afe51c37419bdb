"""Every choice of a table gives the right result: all roots, several sizes and types.

The argument: whether the job has a table ("tuned"), an empty one ("specified") or none ("plain").
"""

import sys
from typing import Any

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size


def movement(comm: MPI.Comm, count: int) -> None:
    for root in range(comm.size):
        value = np.arange(count, dtype="d") + root
        buf = value.copy() if comm.rank == root else np.zeros(count)
        comm.Bcast(buf, root)
        assert (buf == value).all(), ("bcast", count, root)
        everything = np.arange(count * comm.size, dtype="d") + root
        own = everything[comm.rank * count : (comm.rank + 1) * count]
        gathered = np.zeros(count * comm.size)
        comm.Allgather(own.copy(), gathered)
        assert (gathered == everything).all(), ("allgather", count)
        gathered[:] = 0
        gathered[comm.rank * count : (comm.rank + 1) * count] = own
        comm.Allgather(MPI.IN_PLACE, gathered)
        assert (gathered == everything).all(), ("allgather in place", count)
        # Blocks of the receive buffer may be longer than what comes: pieces have gaps between them.
        roomy = np.zeros((comm.size, count + 3))
        comm.Allgather(own.copy(), roomy)
        assert (roomy[:, :count].ravel() == everything).all(), (
            "allgather into longer blocks",
            count,
        )
        roomy[:] = 0
        comm.Alltoall([everything, count, MPI.DOUBLE], [roomy, count + 3, MPI.DOUBLE])
        assert (roomy[:, :count] == own).all(), ("alltoall into longer blocks", count)
        exchanged = everything * (comm.rank + 1)
        wanted = np.concatenate([own * (other + 1) for other in range(comm.size)])
        comm.Alltoall(exchanged.copy(), gathered)
        assert (gathered == wanted).all(), ("alltoall", count)
        comm.Alltoall(MPI.IN_PLACE, exchanged)
        assert (exchanged == wanted).all(), ("alltoall in place", count)
        pieces = np.arange(count * comm.size, dtype="i")
        mine = np.zeros(count, "i")
        comm.Scatter(pieces if comm.rank == root else None, mine, root)
        assert (mine == pieces[comm.rank * count : (comm.rank + 1) * count]).all(), (
            "scatter",
            count,
            root,
        )


def reductions(comm: MPI.Comm, count: int) -> None:
    mine = (np.arange(count) + 1.0) * (comm.rank + 1)
    total = (np.arange(count) + 1.0) * sum(range(1, comm.size + 1))
    got = np.zeros(count)
    comm.Allreduce(mine, got)
    assert (got == total).all(), ("allreduce", count)
    comm.Allreduce(MPI.IN_PLACE, again := mine.copy(), MPI.MAX)
    assert (again == (np.arange(count) + 1.0) * comm.size).all(), ("in place", count)
    if comm.size == size:
        # An error in MPI, which libraries may report; between clients it has always run.
        comm.Allreduce(again := mine.copy(), again[:])
        assert (again == total).all(), ("aliased", count)
    for root in range(comm.size):
        got[:] = -1
        comm.Reduce(mine, got, root=root)
        assert (got == (total if comm.rank == root else -1)).all(), (
            "reduce",
            count,
            root,
        )
    request = comm.Iallreduce(mine, got)
    request.Wait()
    assert (got == total).all(), ("iallreduce", count)


def an_operation_of_ones_own() -> None:
    def twice(a: Any, b: Any, datatype: MPI.Datatype) -> None:
        x, y = np.frombuffer(a, "l"), np.frombuffer(b, "l")
        y += x

    op = MPI.Op.Create(twice, commute=True)
    got = np.zeros(300, "l")
    comm.Allreduce(np.full(300, rank), got, op)
    assert (got == sum(range(size))).all()
    op.Free()

    def first(a: Any, b: Any, datatype: MPI.Datatype) -> None:
        np.frombuffer(b, "l")[:] = np.frombuffer(a, "l")

    op = MPI.Op.Create(first, commute=False)
    comm.Allreduce(np.full(300, rank + 5), got, op)
    assert (got == 5).all(), "rank order"
    op.Free()


for count in (0, 1, 7, 100, 5000):
    movement(comm, count)
    reductions(comm, count)
an_operation_of_ones_own()
assert comm.bcast({"a": rank}, 1) == {"a": 1}
assert comm.allreduce(rank) == sum(range(size))
reordered = comm.Split(0, -rank)
movement(reordered, 50)
reductions(reordered, 50)
reordered.Free()
colour = (
    comm.Get_attr(MPI.IMPI_CLIENT_COLOR) if hasattr(MPI, "IMPI_CLIENT_COLOR") else 0
)
local = comm.Split(colour, rank)
movement(local, 50)
reductions(local, 50)
local.Free()

from impi.protocol.decisions import BY_SPECIFICATION  # noqa: E402
from impi.rank.api import runtime  # noqa: E402

decisions = runtime.engine().job.decisions
assert {None: "plain", BY_SPECIFICATION: "specified"}.get(
    decisions, "tuned"
) == sys.argv[1]
if rank == 0:
    print("all right")
