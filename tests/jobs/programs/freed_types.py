"""Datatypes and operations are freed between the start of a request, or its making, and its end."""

from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
size, rank = world.size, world.rank
cart = world.Create_cart([size], [True])
mine, zeros = (
    (lambda many: array("i", many * [rank])),
    (lambda many: array("i", many * [0])),
)
ones, places = [1] * size, list(range(size))
all_ranks = [each for each in range(size) for _ in (0, 1)]
neighbors = [each for each in ((rank - 1) % size, (rank + 1) % size) for _ in (0, 1)]


def add(invec, inoutvec, datatype):
    taken, into = (memoryview(each).cast("B").cast("i") for each in (invec, inoutvec))
    for i in range(len(into)):
        into[i] += taken[i]


def arguments(t, op):
    """Yield name, arguments behind ``self``, what receives, and what it must hold."""
    total = 2 * [size * (size - 1) // 2]
    into = mine(2)
    yield "bcast", ([into, 1, t], 0), into, [0, 0]
    into = zeros(2 * size)
    yield (
        "gather",
        ([mine(2), 1, t], [into, 1, t], 0),
        into,
        all_ranks if rank == 0 else into,
    )
    into = zeros(2)
    yield (
        "scatter",
        ([array("i", range(2 * size)), 1, t], [into, 1, t], 0),
        into,
        [2 * rank, 2 * rank + 1],
    )
    into = zeros(2 * size)
    yield "allgather", ([mine(2), 1, t], [into, 1, t]), into, all_ranks
    into = zeros(2 * size)
    yield "allgatherv", ([mine(2), 1, t], [into, (ones, places), t]), into, all_ranks
    into = zeros(2 * size)
    yield "alltoall", ([mine(2 * size), 1, t], [into, 1, t]), into, all_ranks
    into = zeros(2 * size)
    yield (
        "alltoallv",
        ([mine(2 * size), (ones, places), t], [into, (ones, places), t]),
        into,
        all_ranks,
    )
    into, octets = zeros(2 * size), [8 * each for each in places]
    yield (
        "alltoallw",
        (
            [mine(2 * size), (ones, octets), size * [t]],
            [into, (ones, octets), size * [t]],
        ),
        into,
        all_ranks,
    )
    into = zeros(2)
    yield "allreduce", ([mine(2), 1, t], [into, 1, t], op), into, total
    into = zeros(2)
    yield (
        "reduce",
        ([mine(2), 1, t], [into, 1, t], op, 0),
        into,
        total if rank == 0 else into,
    )
    into = zeros(2)
    yield (
        "scan",
        ([mine(2), 1, t], [into, 1, t], op),
        into,
        2 * [rank * (rank + 1) // 2],
    )
    into = zeros(2)
    yield (
        "reduce_scatter_block",
        ([mine(2 * size), 1, t], [into, 1, t], op),
        into,
        total,
    )
    into = zeros(4)
    yield "neighbor_allgather", ([mine(2), 1, t], [into, 1, t]), into, neighbors
    into = zeros(4)
    yield (
        "neighbor_alltoallw",
        ([mine(4), ([1, 1], [0, 8]), 2 * [t]], [into, ([1, 1], [0, 8]), 2 * [t]]),
        into,
        neighbors,
    )


NAMES = [name for name, *_ in arguments(MPI.INT, MPI.SUM)]
for name in NAMES:
    for form in (f"I{name}", f"{name.capitalize()}_init"):
        pair, op = MPI.INT.Create_contiguous(2).Commit(), MPI.Op.Create(add, True)
        [(given, into, wanted)] = [
            row[1:] for row in arguments(pair, op) if row[0] == name
        ]
        request = getattr(cart, form)(*given)
        pair.Free()
        op.Free()
        for _ in range(1 + form.endswith("_init")):
            if form.endswith("_init"):
                request.Start()
            request.Wait()
            assert list(into) == list(wanted), (form, list(into), wanted)

for kind in ("Send_init", "Ssend_init", "Isend"):
    pair, into = MPI.INT.Create_contiguous(2).Commit(), zeros(2)
    requests = [
        cart.Recv_init([into, 1, pair], (rank - 1) % size),
        getattr(cart, kind)([mine(2), 1, pair], (rank + 1) % size),
    ]
    pair.Free()
    MPI.Prequest.Startall([each for each in requests if isinstance(each, MPI.Prequest)])
    MPI.Request.Waitall(requests)
    assert list(into) == 2 * [(rank - 1) % size], kind

world.Barrier()
if rank == 0:
    print("all right")
