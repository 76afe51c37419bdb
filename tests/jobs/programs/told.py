"""One rank errs in a collective and goes on; others are told. Rank 0 prints "all right".

Each mistake is made on a communicator of its own, by rank 1 of it, which other clients' procs are
in, too.
"""

from collections.abc import Callable

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
me, size = world.rank, world.size
CULPRIT = 1


def ints(count: int) -> "np.ndarray":
    return np.zeros(count, "i")


def swapped() -> "np.ndarray":
    return np.zeros(1, np.dtype("i").newbyteorder())


def outcome(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except Exception as failure:
        return failure
    return None


def bad_sum(x: object, y: object) -> object:
    raise ArithmeticError("cannot add")


Comm = MPI.Intracomm
Call = Callable[[Comm], object]

# Name, the right call, the culprit's call, and the error class that the others get.
MISTAKES: list[tuple[str, Call, Call, int]] = [
    (
        "Bcast",
        lambda c: c.Bcast(ints(1), 2),
        lambda c: c.Bcast(ints(1), 99),
        MPI.ERR_ROOT,
    ),
    (
        "Bcast",
        lambda c: c.Bcast(ints(1), CULPRIT),
        lambda c: c.Bcast([ints(1), 2, MPI.INT], CULPRIT),
        MPI.ERR_BUFFER,
    ),
    (
        "bcast",
        lambda c: c.bcast(None, CULPRIT),
        lambda c: c.bcast(lambda: 0, CULPRIT),
        MPI.ERR_OTHER,
    ),
    (
        "Gather",
        lambda c: c.Gather(ints(1), ints(size), 0),
        lambda c: c.Gather(swapped(), None, 0),
        MPI.ERR_OTHER,
    ),
    (
        "Allgather",
        lambda c: c.Allgather(ints(1), ints(size)),
        lambda c: c.Allgather(ints(1), ints(size + 1)),
        MPI.ERR_OTHER,
    ),
    (
        "Scatter",
        lambda c: c.Scatter(None, ints(1), CULPRIT),
        lambda c: c.Scatter(None, ints(1), CULPRIT),
        MPI.ERR_OTHER,
    ),
    (
        "alltoall",
        lambda c: c.alltoall([0] * size),
        lambda c: c.alltoall([0]),
        MPI.ERR_OTHER,
    ),
    (
        "Allreduce",
        lambda c: c.Allreduce(ints(1), ints(1)),
        lambda c: c.Allreduce(ints(1), ints(1), MPI.MAXLOC),
        MPI.ERR_OP,
    ),
    (
        "Reduce_scatter",
        lambda c: c.Reduce_scatter(ints(size), ints(1), [1] * size),
        lambda c: c.Reduce_scatter(ints(size), ints(1), [1]),
        MPI.ERR_OTHER,
    ),
    (
        "Iallreduce",
        lambda c: c.Iallreduce(ints(1), ints(1)).Wait(),
        lambda c: c.Iallreduce(ints(1), swapped()).Wait(),
        MPI.ERR_OTHER,
    ),
    (
        "Ibarrier",
        lambda c: c.Ibarrier().Wait(),
        lambda c: c.Ibcast(ints(1), -9).Wait(),
        MPI.ERR_ROOT,
    ),
    (
        "Scan",
        lambda c: c.Scan(ints(1), ints(1)),
        lambda c: c.Scan(ints(1), ints(1), MPI.OP_NULL),
        MPI.ERR_OP,
    ),
    ("Split", lambda c: c.Split(0), lambda c: c.Split(-9), MPI.ERR_ARG),
    (
        "Create",
        lambda c: c.Create(c.Get_group()),
        lambda c: c.Create(MPI.GROUP_NULL),
        MPI.ERR_GROUP,
    ),
    (
        "Create_cart",
        lambda c: c.Create_cart([size]),
        lambda c: c.Create_cart([0]),
        MPI.ERR_DIMS,
    ),
    ("Dup", lambda c: c.Dup(), lambda c: c.Bcast(ints(1), 99), MPI.ERR_ROOT),
    ("Free", lambda c: c.Dup().Free(), lambda c: c.Bcast(ints(1), 99), MPI.ERR_ROOT),
]


def started(c: Comm, root: int) -> None:
    request = c.Bcast_init(ints(1), root)
    request.Start()
    request.Wait()


MISTAKES.append(
    ("Bcast_init", lambda c: started(c, 0), lambda c: started(c, 99), MPI.ERR_ROOT)
)


def check(name: str, right: Call, wrong: Call, error: int, *, late: bool) -> None:
    comm = world.Dup()
    if late and me != CULPRIT:
        comm.recv(source=CULPRIT)  # its mistake is made, and told, by now
    failure = outcome(lambda: (wrong if me == CULPRIT else right)(comm))
    if late and me == CULPRIT:
        for rank in range(size):
            if rank != me:
                comm.send("made", rank)
    if me == CULPRIT:
        assert failure is not None, name
    # Whoever needs nobody else may be through before it is told; from the next on it is.
    following = outcome(comm.Barrier)
    for told in (failure, following):
        if isinstance(told, MPI.Exception) and not (told is failure and me == CULPRIT):
            assert told.Get_error_class() == error or name == "allreduce", (name, told)
            assert "failed in " in str(told), (name, told)
            if name != "allreduce":
                assert f"rank {CULPRIT} failed in " in str(told), (name, told)
    assert isinstance(following, MPI.Exception), (name, failure, following)
    # Messages pass, and so another communicator can be made of it.
    assert (
        comm.sendrecv(me, (me + 1) % size, 3, None, (me - 1) % size, 3)
        == (me - 1) % size
    )
    another = comm.Create_group(comm.Get_group())
    assert another.allgather(me) == list(range(size))
    another.Free()
    comm.Free()


for mistake in MISTAKES:
    for late in (False, True):
        check(*mistake, late=late)
        world.Barrier()


# A mistake that is found half-way needs the others to come as far.
check(
    "Reduce_scatter",
    lambda c: c.Reduce_scatter(ints(size), ints(1)),
    lambda c: c.Reduce_scatter(ints(size + 1), ints(1)),
    MPI.ERR_OTHER,
    late=False,
)
check(
    "allreduce",
    lambda c: c.allreduce(1, bad_sum),
    lambda c: c.allreduce(1, bad_sum),
    MPI.ERR_OTHER,
    late=False,
)


def alike() -> None:
    """All make the same mistake, many times over: nothing has happened."""
    comm = world.Dup()
    for i in range(20):
        failure = outcome(lambda: comm.Bcast(ints(1), 99))
        assert (
            isinstance(failure, MPI.Exception)
            and failure.Get_error_class() == MPI.ERR_ROOT
        )
        if i % 3 == 0:
            assert comm.allgather(me) == list(range(size))
        if i % 3 == 1:
            requests = [comm.Ibcast(ints(1), 0), comm.Iallreduce(ints(1), ints(1))]
            assert isinstance(outcome(lambda: comm.Ibcast(swapped(), 0)), BufferError)
            requests.append(comm.Ibarrier())
            MPI.Request.Waitall(requests)
    comm.Free()


def between_two_groups() -> None:
    low = me < size // 2
    local = world.Split(int(low))
    both = local.Create_intercomm(0, world, size // 2 if low else 0, 5)
    root = (MPI.ROOT if both.rank == 0 else MPI.PROC_NULL) if low else 0
    data = ints(1)
    culprit = not low and both.rank == 0
    failure = outcome(lambda: both.Bcast(data, 99 if culprit else root))
    following = None
    # Only the other group need have come to it: it is told before the next, at the latest
    while following is None:
        following = outcome(both.Barrier)
    assert (
        isinstance(following, MPI.Exception)
        and following.Get_error_class() == MPI.ERR_ROOT
    ), (failure, following)
    assert f"rank 0 (rank {size // 2} of MPI_COMM_WORLD) failed in Bcast" in str(
        following
    )
    both.Free()
    local.Free()


def the_handler_is_called_where_it_is_told() -> None:
    seen: list[int] = []
    handler = MPI.Comm.Create_errhandler(lambda _, code: seen.append(code))
    comm = world.Dup()
    comm.Set_errhandler(handler)
    handler.Free()
    outcome(
        lambda: comm.Allreduce(
            ints(1), ints(1), MPI.OP_NULL if me == CULPRIT else MPI.SUM
        )
    )
    assert seen == [MPI.ERR_OP]
    comm.Free()


alike()
between_two_groups()
the_handler_is_called_where_it_is_told()
world.Barrier()
if me == 0:
    print("all right")
