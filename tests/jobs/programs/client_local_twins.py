"""Messages and collectives inside a client are right for any route and form of buffer.

Every rank draws, in every call, the route of its messages and how it describes its buffers. The
library reads some descriptions itself, others are packed. Also: order beside wildcards and probes,
truncation, progress of the channels.
"""

import random

import numpy
from mpi4py import MPI

from impi.rank.api import runtime
from impi.rank.api.p2p.routes import QueuedRoute

world = MPI.COMM_WORLD
home = world.Split(world.Get_attr(MPI.IMPI_CLIENT_COLOR))
rank, size = home.rank, home.size
draw = random.Random(world.rank)
same = random.Random(7)
state = home._state
context = state.context
expected = (
    "ClientLocal"
    if runtime.engine().vendor.world.native is not None and size > 1
    else "_ByMessages"
)
assert type(state.strategy).__name__ == expected, type(state.strategy)


def draw_routes():
    """The next messages take the route made for them, or the engine's queues."""
    for routes in (state.destinations, state.sources):
        routes.clear()
        if draw.random() < 0.5:
            routes.update(
                {r: QueuedRoute(runtime.engine(), context, r) for r in range(size)}
            )


TYPES = [
    (numpy.uint8, MPI.BYTE),
    (numpy.float64, MPI.DOUBLE),
    (numpy.int64, MPI.LONG),
    (numpy.int16, MPI.SHORT),
    (numpy.complex128, MPI.C_DOUBLE_COMPLEX),
]
SIZES = [0, 1, 3, 64, 5000, 70000]


CYCLE = numpy.arange(max(SIZES) + 113) * 7 % 113


def filled(seed, count, kind):
    """Value i, which every rank knows, is 7 i + 13 seed + 1, modulo 113; 97 is the inverse of 7."""
    start = (seed * 13 + 1) * 97 % 113
    return CYCLE[start : start + count].astype(kind)


derived = {
    datatype.Get_name(): datatype.Create_contiguous(1).Commit() for _, datatype in TYPES
}


def spec(array, datatype, blocks=1):
    """One of the ways to say the same; a count is that of one block."""
    ours = derived[datatype.Get_name()]
    forms = [
        array,
        [array, datatype],
        [array, array.size // blocks, datatype],
        (array, datatype),
    ]
    return draw.choice([*forms, [array, ours], [array, array.size // blocks, ours]])


def values(array, blocks=1):
    """One of the ways to give a reduction the numbers of an array; a count is that of one block."""
    counted = (memoryview(array), array.size // blocks)
    return draw.choice([array, memoryview(array), [array, array.dtype.char], counted])


def parts_spec(array, counts, displs, datatype):
    """Return a buffer specification for blocks of several lengths, in one of its forms."""
    datatype = draw.choice([datatype, derived[datatype.Get_name()]])
    return draw.choice(
        [[array, counts, displs, datatype], [array, (counts, displs), datatype]]
    )


def check(what, got, want):
    assert numpy.array_equal(got, want), (
        f"{what} at {world.rank}: {got[:8]} is not {want[:8]}"
    )


for number in range(200):
    kind, datatype = same.choice(TYPES)
    count, root = same.choice(SIZES), same.randrange(size)
    each = [filled(number + r, count, kind) for r in range(size)]
    mine, into, whole = (
        each[rank].copy(),
        numpy.zeros(count, kind),
        numpy.zeros(count * size, kind),
    )
    counts = [same.choice([0, 1, 5, 30000]) for _ in range(size)]
    displs = [sum(counts[:r]) + 2 * r for r in range(size)]
    gaps = numpy.full(sum(counts) + 2 * size, 99).astype(kind)
    parts = [filled(number + r, counts[r], kind) for r in range(size)]
    spread = gaps.copy()
    for r in range(size):
        spread[displs[r] : displs[r] + counts[r]] = parts[r]
    op = same.choice([MPI.SUM, MPI.MAX, MPI.MIN])
    reduced = {
        MPI.SUM.handle: sum,
        MPI.MAX.handle: lambda v: numpy.max(v, 0),
        MPI.MIN.handle: lambda v: numpy.min(v, 0),
    }
    kinds = [
        numpy.float64,
        numpy.int64,
        numpy.int16,
        numpy.int32,
        numpy.uint8,
        numpy.int8,
    ]
    # No sum overflows: Open MPI 5.0 saturates sums of 1 and 2 octets where the processor has AVX.
    numbers = [
        (filled(number + r, count, "i8") % 31).astype(kinds[number % 6])
        for r in range(size)
    ]
    total = reduced[op.handle](numbers).astype(kinds[number % 6])
    sums = numpy.zeros_like(total)
    what = same.randrange(18)
    draw_routes()
    if what == 0:
        home.Barrier()
    elif what == 1:
        home.Bcast(spec(mine, datatype), root)
        check("Bcast", mine, each[root])
    elif what == 2:
        home.Gather(
            spec(mine, datatype),
            spec(whole, datatype, size) if rank == root else None,
            root,
        )
        if rank == root:
            check("Gather", whole, numpy.concatenate(each))
    elif what == 3:
        home.Scatter(
            spec(numpy.concatenate(each), datatype, size) if rank == root else None,
            spec(into, datatype),
            root,
        )
        check("Scatter", into, each[rank])
    elif what == 4:
        home.Allgather(spec(mine, datatype), spec(whole, datatype, size))
        check("Allgather", whole, numpy.concatenate(each))
    elif what == 5:
        sent = numpy.concatenate([each[rank]] * size)
        home.Alltoall(spec(sent, datatype, size), spec(whole, datatype, size))
        check("Alltoall", whole, numpy.concatenate(each))
    elif what == 6:
        home.Reduce(
            values(numbers[rank]), values(sums) if rank == root else None, op, root
        )
        if rank == root:
            check("Reduce", sums, total)
    elif what == 7:
        home.Allreduce(values(numbers[rank]), values(sums), op)
        check("Allreduce", sums, total)
    elif what == 8:
        home.Gatherv(
            parts[rank],
            parts_spec(gaps, counts, displs, datatype) if rank == root else None,
            root,
        )
        if rank == root:
            check("Gatherv", gaps, spread)
    elif what == 9:
        piece = numpy.zeros(counts[rank], kind)
        home.Scatterv(
            parts_spec(spread, counts, displs, datatype) if rank == root else None,
            [piece, datatype],
            root,
        )
        check("Scatterv", piece, parts[rank])
    elif what == 10:
        home.Allgatherv(
            [parts[rank], datatype], parts_spec(gaps, counts, displs, datatype)
        )
        check("Allgatherv", gaps, spread)
    elif what == 11:
        # Rank r sends to each as much as it has.
        sent = numpy.concatenate([parts[rank]] * size)
        starts = [counts[rank] * r for r in range(size)]
        home.Alltoallv(
            parts_spec(sent, [counts[rank]] * size, starts, datatype),
            parts_spec(gaps, counts, displs, datatype),
        )
        check("Alltoallv", gaps, spread)
    elif what == 12:
        shares = [count // size + (r < count % size) for r in range(size)]
        share = numpy.zeros(shares[rank], kinds[number % 6])
        home.Reduce_scatter(values(numbers[rank]), values(share), shares, op)
        check(
            "Reduce_scatter", share, total[sum(shares[:rank]) : sum(shares[: rank + 1])]
        )
    elif what == 13:
        every = [
            (
                numpy.concatenate(
                    [filled(number + r + q, count, "i8") for q in range(size)]
                )
                % 31
            ).astype(sums.dtype)
            for r in range(size)
        ]
        home.Reduce_scatter_block(values(every[rank], size), values(sums), op)
        want = reduced[op.handle](every).astype(sums.dtype)
        check("Reduce_scatter_block", sums, want[rank * count : (rank + 1) * count])
    elif what == 14:
        home.Scan(values(numbers[rank]), values(sums), op)
        check("Scan", sums, reduced[op.handle](numbers[: rank + 1]).astype(sums.dtype))
    elif what == 15:
        home.Exscan(values(numbers[rank]), values(sums), op)
        if rank:
            check("Exscan", sums, reduced[op.handle](numbers[:rank]).astype(sums.dtype))
    elif what == 16:
        sent = numpy.concatenate([parts[rank]] * size)
        ends = (
            [mine.itemsize * counts[rank] * r for r in range(size)],
            [mine.itemsize * at for at in displs],
        )
        types = [
            draw.choice([datatype, derived[datatype.Get_name()]]) for _ in range(size)
        ]
        home.Alltoallw(
            [sent, ([counts[rank]] * size, ends[0]), types],
            [gaps, (counts, ends[1]), types],
        )
        check("Alltoallw", gaps, spread)
    else:
        right, left = (rank + 1) % size, (rank - 1) % size
        status = draw.choice([None, MPI.Status()])
        later = (
            home.Isend(spec(mine, datatype), right, number)
            if rank % 2 or size == 1
            else None
        )
        if later is None:
            home.Send(spec(mine, datatype), right, number)
        home.Recv(spec(into, datatype), left, number, status)
        if later is not None:
            later.Wait()
        check("Recv", into, each[left])
        if status is not None:
            assert (status.source, status.tag) == (left, number), (
                status.source,
                status.tag,
            )
            assert (
                status.Get_count(datatype) == count
                and status.Get_count(MPI.BYTE) == mine.nbytes
            )
for routes in (state.destinations, state.sources):
    routes.clear()

if size > 1:
    # Order: earlier posts, and what a probe took off the library's queue, come first.
    one = numpy.zeros(1, "i")
    first, second, third = one.copy(), one.copy(), one.copy()
    if rank == 0:
        anybody = home.Irecv(first, MPI.ANY_SOURCE, 5)
        home.Barrier()
        home.Recv(second, 1, 5)
        home.Probe(1, 5)
        home.Recv(third, 1, 5)
        anybody.Wait()
        assert [first[0], second[0], third[0]] == [1, 2, 3], (first, second, third)
    else:
        home.Barrier()
        if rank == 1:
            for value in (1, 2, 3):
                home.Send(numpy.array([value], "i"), 0, 5)

    # Truncation: the sentence and the class, and the next message is there.
    if rank == 0:
        for nbytes in (16, 70000, 3000000):
            small = numpy.zeros(8, "B")
            status = MPI.Status()
            try:
                home.Recv(small, 1, 6, draw.choice([None, status]))
            except MPI.Exception as failure:
                assert failure.Get_error_class() == MPI.ERR_TRUNCATE, failure
            else:
                raise AssertionError("a truncated message went unnoticed")
            home.Recv(one, 1, 6)
            assert one[0] == nbytes
    elif rank == 1:
        for nbytes in (16, 70000, 3000000):
            home.Send(numpy.ones(nbytes, "B"), 0, 6)
            home.Send(numpy.array([nbytes], "i"), 0, 6)

    # A wrong call raises an error, and leaves nothing behind.
    for wrong in (
        lambda: home.Send(one, size, 0),
        lambda: home.Recv(one, 0, -5),
        lambda: home.Send([one, 2, MPI.INT], 0),
    ):
        try:
            wrong()
        except MPI.Exception:
            pass
        else:
            raise AssertionError("a wrong call went unnoticed")
home.Barrier()

# Progress: X waits in the library for Y, and Y for Z's long message to X.
clients = world.allgather(world.Get_attr(MPI.IMPI_CLIENT_COLOR))
near = [r for r, color in enumerate(clients) if color == clients[0]]
z = next((r for r, color in enumerate(clients) if color != clients[0]), None)
if len(near) > 1 and z is not None:
    x, y = near[:2]
    for together in (True, False):
        long, note = numpy.zeros(1 << 20, "B"), numpy.zeros(1)
        if world.rank == x:
            request = world.Irecv(long, z, 9)
            if together:
                home.Barrier()
            else:
                home.Recv(note, 1, 11)
            request.Wait()
            assert long.all()
        elif world.rank == y:
            world.Recv(note, z, 10)
            if together:
                home.Barrier()
            else:
                home.Send(note, 0, 11)
        elif world.rank == z:
            world.Send(numpy.ones(1 << 20, "B"), x, 9)
            world.Send(note, y, 10)
        elif world.rank in near and together:
            home.Barrier()
world.Barrier()
beside = home.rank + 1 if home.rank + 1 < home.size else 0
home.Barrier()
if world.rank == 0:
    print("all right")

# After the end no route is left, and the library is not called.
MPI.Finalize()
for call in (
    home.Barrier,
    lambda: home.Send(numpy.zeros(1), beside),
    lambda: home.Recv(numpy.zeros(1), beside),
    world.Barrier,
):
    try:
        call()
    except MPI.Exception as failure:
        assert "finalized" in str(failure), failure
    else:
        raise AssertionError("a call went through after MPI_Finalize")
