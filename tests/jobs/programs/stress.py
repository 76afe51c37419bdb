"""Storms: MPI's promises under random traffic of many seeds. Rank 0 prints "all right".

Arguments: order, fairness or progress; how many seeds; the number of the first. All ranks draw the
same plan of a seed.
"""

import random
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
clients = comm.allgather(comm.Get_attr(MPI.IMPI_CLIENT_COLOR))
LONG, MOST = 4000, 6000  # octets; with --datalen 1000 both are long messages


def order(rng: random.Random) -> None:
    """Messages of a pair do not overtake each other, for any mode, size and receive."""
    plan = []
    for number in range(12):
        source, dest = rng.sample(range(size), 2)
        plan.append(
            (
                number,
                source,
                dest,
                rng.randrange(2),
                rng.choice([24, 100, 1000, 1024, MOST]),
                rng.randrange(4),
            )
        )
    wild, early = [rng.random() < 0.5 for _ in range(size)], rng.random() < 0.5
    mine = [m for m in plan if m[2] == rank]
    places = [np.zeros(MOST, np.uint8) for _ in mine]
    statuses = [MPI.Status() for _ in mine]

    def post() -> list[MPI.Request]:
        if wild[rank]:
            return [comm.Irecv(place, MPI.ANY_SOURCE, MPI.ANY_TAG) for place in places]
        return [
            comm.Irecv(place, m[1], m[3]) for place, m in zip(places, mine, strict=True)
        ]

    receives = post() if early else []
    sends, kept = [], []
    for number, source, dest, tag, nbytes, mode in plan:
        if source == rank:
            data = np.zeros(nbytes, np.uint8)
            data[:24].view(np.int64)[:] = number, source, nbytes
            kept.append(data)
            if mode == 3 and early:
                comm.Ssend(data, dest, tag)
            else:
                sends.append(
                    (comm.Isend, comm.Issend, comm.Ibsend, comm.Isend)[mode](
                        data, dest, tag
                    )
                )
    receives = receives or post()
    MPI.Request.Waitall(receives, statuses)
    MPI.Request.Waitall(sends)
    newest: dict[tuple[int, ...], int] = {}
    found = []
    for place, status in zip(places, statuses, strict=True):
        number, source, nbytes = map(int, place[:24].view(np.int64))
        assert (status.source, status.count) == (source, nbytes)
        pair = (source,) if wild[rank] else (source, status.tag)
        assert number > newest.get(pair, -1), f"{number} of {pair} after {newest[pair]}"
        newest[pair] = number
        found.append((number, source, rank, status.tag, nbytes))
    assert sorted(found) == [m[:5] for m in mine]


def fairness(rng: random.Random) -> None:
    """Whoever goes on sending is received from, in the end, though others send without a pause."""
    root, wanted = rng.randrange(size), rng.randrange(1, 3)
    stop = np.zeros(1, np.uint8)
    if rank != root:
        data = np.zeros(rng.choice([8, 8, 100, MOST]), np.uint8)
        while not comm.Iprobe(root, 2):
            comm.Ssend(data, root, 1)
        comm.Recv(stop, root, 2)
        comm.Ssend(data, root, 3)
        return
    counts, over, told = dict.fromkeys(set(range(size)) - {root}, 0), 0, []
    place, status = np.zeros(MOST, np.uint8), MPI.Status()
    while over < size - 1:
        comm.Recv(place, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
        over += status.tag == 3
        counts[status.source] += 1
        assert sum(counts.values()) < 20_000, f"somebody starves: {counts}"
        if not told and min(counts.values()) >= wanted:
            told = [comm.Isend(stop, dest, 2) for dest in counts]
    MPI.Request.Waitall(told)


def progress(rng: random.Random) -> None:
    """A proc blocked in a local receive still serves other procs (MPI's progress rule)."""
    a = rng.choice([r for r in range(size) if clients.count(clients[r]) > 1])
    b = rng.choice([r for r in range(size) if clients[r] != clients[a]])
    c = rng.choice([r for r in range(size) if clients[r] == clients[a] and r != a])
    burst = rng.choice([0, 25, 40])
    small = np.full(rng.choice([0, 8, 500]), a, np.uint8)
    long, place = np.full(LONG * 10, a, np.uint8), np.zeros(LONG * 10, np.uint8)
    token = np.zeros(1, np.uint8)
    if rank == a:
        for _ in range(burst):
            comm.Bsend(small, b, 5)
        request = MPI.REQUEST_NULL if burst else comm.Isend(long, b, 5)
        comm.Recv(token, c, 6)
        request.Wait()
    elif rank == b:
        for _ in range(burst or 1):
            status = MPI.Status()
            comm.Recv(place, a, 5, status)
            assert status.count == (small.size if burst else long.size)
            assert (place[: status.count] == a).all()
        comm.Send(token, c, 6)
    elif rank == c:
        comm.Recv(token, b, 6)
        comm.Send(token, a, 6)


storm = {"order": order, "fairness": fairness, "progress": progress}[sys.argv[1]]
MPI.Attach_buffer(bytearray(1 << 20))
for seed in range(int(sys.argv[3]), int(sys.argv[3]) + int(sys.argv[2])):
    try:
        storm(random.Random(f"{sys.argv[1]} {seed}"))
    except BaseException as error:
        error.add_note(f"seed {seed}, rank {rank}")
        raise
    if storm is not progress:
        comm.Barrier()  # else a wildcard takes messages of the next seed
MPI.Detach_buffer()
comm.Barrier()
if rank == 0:
    print("all right")
