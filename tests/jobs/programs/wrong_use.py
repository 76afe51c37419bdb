"""Wrong use by all ranks alike, on any mpi4py: rank 0 prints each result as JSON.

By case, for each rank: the name of the error class, or of Python's own exception, or "ok"; with the
argument "handler" a list of that and of the arguments that the communicator's error handler got,
too.
"""

import json
import sys
from collections.abc import Callable

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
me, size = world.rank, world.size
NAMES = {
    getattr(MPI, name): name
    for name in dir(MPI)
    if name.startswith("ERR_") and name != "ERR_LASTCODE"
}
Case = Callable[[], object]


def ints(count: int) -> "np.ndarray":
    return np.zeros(count, "i")


def swapped() -> "np.ndarray":
    return np.zeros(1, np.dtype("i").newbyteorder())


control = world.Dup()
comm = world.Dup()
cut = {name: world.Dup() for name in ("Bcast", "Gather", "Scatter")}
"""For truncated collectives, each a communicator: some members are out of step afterwards."""
freed = world.Dup()
freed.Free()
gone = MPI.INT.Create_contiguous(2).Commit()
gone.Free()
raw = MPI.INT.Create_contiguous(2)
null = MPI.COMM_NULL
far, low = 99, -7
too_high = comm.Get_attr(MPI.TAG_UB) + 1


def from_zero(receive: Callable[[], object]) -> Case:
    """Rank 0 sends three integers to rank 1, which takes them as ``receive`` does."""

    def case() -> None:
        if me == 0:
            comm.Send(ints(3), 1, 7)
        if me == 1:
            receive()

    return case


def matched() -> None:
    comm.Mprobe(0, 7).Recv(ints(1))


def persistent() -> None:
    request = comm.Recv_init(ints(1), 0, 7)
    request.Start()
    try:
        request.Wait()
    finally:
        request.Free()


def exchange() -> None:
    comm.Sendrecv(ints(3), me ^ 1, 7, ints(1), me ^ 1, 7)


def all_of_three() -> None:
    if me == 0:
        for count in (3, 1, 2):
            comm.Send(ints(count), 1, 7)
    if me == 1:
        requests = [comm.Irecv(ints(1), 0, 7) for _ in range(3)]
        statuses = [MPI.Status() for _ in requests]
        try:
            MPI.Request.Waitall(requests, statuses)
        finally:
            # MPICH leaves requests, Open MPI pending ones; the next case must not find them.
            calls = list(seen)
            while any(requests):
                try:
                    MPI.Request.Waitall(requests)
                except MPI.Exception:
                    pass
            seen[:] = calls


def started_twice() -> None:
    request = comm.Recv_init(ints(1), me, 3)
    request.Start()
    try:
        request.Start()
    finally:
        request.Cancel()
        request.Wait()
        request.Free()


CASES: dict[str, Case] = {
    # rank
    "rank Send": lambda: comm.Send(ints(1), far),
    "rank Isend": lambda: comm.Isend(ints(1), low),
    "rank Ssend": lambda: comm.Ssend(ints(1), far),
    "rank send": lambda: comm.send(1, far),
    "rank Recv": lambda: comm.Recv(ints(1), far),
    "rank recv": lambda: comm.recv(source=far),
    "rank Probe": lambda: comm.Probe(far),
    "rank Improbe": lambda: comm.Improbe(far),
    "rank Sendrecv": lambda: comm.Sendrecv(ints(1), far, 0, ints(1), me),
    "rank Send_init": lambda: comm.Send_init(ints(1), far),
    "rank Group.Incl": lambda: comm.Get_group().Incl([far]),
    "rank Create_intercomm": lambda: comm.Create_intercomm(far, world, 0),
    # root
    "root Bcast": lambda: comm.Bcast(ints(1), far),
    "root Ibcast": lambda: comm.Ibcast(ints(1), low),
    "root Bcast_init": lambda: comm.Bcast_init(ints(1), far),
    "root bcast": lambda: comm.bcast(1, far),
    "root Gather": lambda: comm.Gather(ints(1), ints(size), far),
    "root Gatherv": lambda: comm.Gatherv(ints(1), ints(size), far),
    "root gather": lambda: comm.gather(1, far),
    "root Scatter": lambda: comm.Scatter(ints(size), ints(1), far),
    "root scatter": lambda: comm.scatter([1] * size, far),
    "root Reduce": lambda: comm.Reduce(ints(1), ints(1), MPI.SUM, far),
    "root reduce": lambda: comm.reduce(1, MPI.SUM, far),
    # tag
    "tag Send": lambda: comm.Send(ints(1), me, low),
    "tag Send any": lambda: comm.Send(ints(1), me, MPI.ANY_TAG),
    "tag Send high": lambda: comm.Send(ints(1), me, too_high),
    "tag isend": lambda: comm.isend(1, me, low),
    "tag Recv": lambda: comm.Recv(ints(1), me, low),
    "tag Iprobe": lambda: comm.Iprobe(me, low),
    "tag Sendrecv": lambda: comm.Sendrecv(ints(1), me, low, ints(1), me, 0),
    "tag nobody": lambda: comm.Send(ints(1), MPI.PROC_NULL, low),
    # truncation: the buffer is too small for the message
    "truncate Recv": from_zero(lambda: comm.Recv(ints(1), 0, 7)),
    "truncate Irecv": from_zero(lambda: comm.Irecv(ints(1), 0, 7).Wait()),
    "truncate irecv": from_zero(lambda: comm.irecv(bytearray(2), 0, 7).wait()),
    "truncate Mrecv": from_zero(matched),
    "truncate Recv_init": from_zero(persistent),
    "truncate Waitany": from_zero(
        lambda: MPI.Request.Waitany([comm.Irecv(ints(1), 0, 7)])
    ),
    "truncate Sendrecv": lambda: exchange() if me < 2 else None,
    "truncate Waitall": all_of_three,
    "truncate Bcast": lambda: cut["Bcast"].Bcast(ints(1 if me == 1 else 3), 0),
    "truncate Gather": lambda: cut["Gather"].Gather(
        ints(3), ints(size) if me == 1 else None, 1
    ),
    "truncate Scatter": lambda: cut["Scatter"].Scatter(
        ints(3 * size) if me == 0 else None, ints(1), 0
    ),
    # type mismatch
    "type Send": lambda: comm.Send([ints(1), 1, MPI.DATATYPE_NULL], me),
    "type Recv code": lambda: comm.Recv([ints(1), "no such type"], me),
    "type Bcast": lambda: comm.Bcast([ints(1), 1, MPI.DATATYPE_NULL]),
    "type Allreduce two": lambda: comm.Allreduce(ints(1), np.zeros(1, "f")),
    "type Allreduce op": lambda: comm.Allreduce(
        np.zeros(1, "f"), np.zeros(1, "f"), MPI.BAND
    ),
    "type Reduce pair": lambda: comm.Reduce(ints(1), ints(1), MPI.MAXLOC),
    "type Iallreduce window": lambda: comm.Iallreduce(
        ints(1), ints(1), MPI.REPLACE
    ).Wait(),
    "type raw Send": lambda: comm.Send([ints(2), 1, raw], me),
    "type raw Recv": lambda: comm.Recv([ints(2), 1, raw], me),
    "type raw Bcast": lambda: comm.Bcast([ints(2), 1, raw]),
    # freed and null handles
    "freed comm Send": lambda: freed.Send(ints(1), 0),
    "freed comm recv": lambda: freed.recv(source=0),
    "freed comm Bcast": lambda: freed.Bcast(ints(1)),
    "freed comm rank": lambda: freed.rank,
    "null comm Send": lambda: null.Send(ints(1), 0),
    "null comm allreduce": lambda: null.allreduce(1),
    "null comm Dup": lambda: null.Dup(),
    "null comm Free": lambda: null.Free(),
    "freed type Send": lambda: comm.Send([ints(2), 1, gone], me),
    "freed type Gather": lambda: comm.Gather([ints(2), 1, gone], ints(2 * size)),
    "null op Allreduce": lambda: comm.Allreduce(ints(1), ints(1), MPI.OP_NULL),
    "null op Iscan": lambda: comm.Iscan(ints(1), ints(1), MPI.OP_NULL),
    "null request Cancel": lambda: MPI.Request().Cancel(),
    "null request Free": lambda: MPI.Request().Free(),
    "null request Start": lambda: MPI.Prequest().Start(),
    "active request Start": started_twice,
    "null group size": lambda: MPI.GROUP_NULL.Get_size(),
    "null group Create": lambda: comm.Create(MPI.GROUP_NULL),
    "null type size": lambda: MPI.DATATYPE_NULL.Get_size(),
    "predefined comm Free": lambda: world.Free(),
    "predefined type Free": lambda: MPI.INT.Free(),
    "predefined op Free": lambda: MPI.SUM.Free(),
    # counts and sizes
    "count negative Send": lambda: comm.Send([ints(1), -1, MPI.INT], me),
    "count negative Bcast": lambda: comm.Bcast([ints(1), -1, MPI.INT]),
    "count negative type": lambda: MPI.INT.Create_contiguous(-1),
    "count Allreduce two": lambda: comm.Allreduce(ints(1), ints(2)),
    "count Gather blocks": lambda: comm.Gather(ints(1), ints(size + 1), me),
    "count Gatherv blocks": lambda: comm.Gatherv(
        ints(1), [ints(size + 1), [1] * (size + 1)], me
    ),
    "count alltoall": lambda: comm.alltoall([1] * (size + 1)),
    "size Create_cart": lambda: comm.Create_cart([size + 1]),
    "size Compute_dims": lambda: MPI.Compute_dims(7, [2, 0]),
    # buffers
    "order Send": lambda: comm.Send(swapped(), me),
    "order Recv": lambda: comm.Recv(swapped(), me),
    "order Bcast": lambda: comm.Bcast(swapped()),
    "order Allreduce": lambda: comm.Allreduce(swapped(), swapped()),
    "read-only Recv": lambda: comm.Recv(b"four", me),
    "no buffer Send": lambda: comm.Send(object(), me),
    "no buffer Bcast": lambda: comm.Bcast(None),
    "gaps Send": lambda: comm.Send(np.zeros((4, 4), "i")[:, 1], me),
    "bsend": lambda: comm.Bsend(np.zeros(10**6, "b"), me),
    # the rest
    "key Set_attr": lambda: comm.Set_attr(MPI.KEYVAL_INVALID, 1),
    "handler Set_errhandler": lambda: comm.Set_errhandler(MPI.ERRHANDLER_NULL),
    "info key": lambda: MPI.Info.Create().Set("", "x"),
}
OVERRUN: dict[str, Case] = {
    # Undefined in MPI: there is nothing to compare with.
    "count large Send": lambda: comm.Send([ints(1), 5, MPI.INT], me),
    "count large Isend": lambda: comm.Isend([ints(1), 2**40, MPI.INT], me),
    "count large Recv": lambda: comm.Recv([ints(1), 5, MPI.INT], me),
    "count large Bcast": lambda: comm.Bcast([ints(1), 5, MPI.INT]),
    "count large Allreduce": lambda: comm.Allreduce(
        [ints(1), 5, MPI.INT], [ints(1), 5, MPI.INT]
    ),
}

seen: list[tuple[str, str]] = []


def handler_of(name: str) -> MPI.Errhandler:
    return MPI.Comm.Create_errhandler(
        lambda _, code: seen.append((name, NAMES[MPI.Get_error_class(code)]))
    )


def outcome(case: Case) -> str:
    try:
        case()
    except MPI.Exception as failure:
        return NAMES[failure.Get_error_class()]
    except Exception as failure:
        return type(failure).__name__
    return "ok"


words = sys.argv[1:]
with_handler = "handler" in words
cases = CASES | (OVERRUN if "overrun" in words else {})
for word in words:
    cases.pop(word, None)
if with_handler:
    for each in (comm, *cut.values()):
        each.Set_errhandler(handler_of("comm"))
    MPI.COMM_SELF.Set_errhandler(handler_of("self"))
    world.Set_errhandler(handler_of("world"))
results = {}
for name, case in cases.items():
    seen.clear()
    mine = outcome(case)
    every = control.allgather([mine, list(seen)] if with_handler else mine)
    results[name] = every
    if "talk" in words and me == 0:
        print(name, every, file=sys.stderr, flush=True)
if me == 0:
    print(json.dumps(results))
