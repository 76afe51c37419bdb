"""Endpoints across clients, a thread each: ``endpoints.py THREADS PART...``; prints ``ok``."""

from __future__ import annotations

import random
import sys
import threading
import traceback
import zlib
from collections import defaultdict
from typing import Any

from mpi4py import MPI

world: Any = MPI.COMM_WORLD
MESSAGES = 100


def ranks(eps: list[Any], threads: int) -> None:
    """Ranks follow the parent's and are consecutive inside a process; none is possible, too."""
    assert [ep.rank for ep in eps] == [world.rank * threads + i for i in range(threads)]
    assert {ep.size for ep in eps} == {world.size * threads}
    few = world.Create_endpoints(world.rank % 2)
    assert [ep.rank for ep in few] == ([world.rank // 2] if world.rank % 2 else [])
    for ep in few:
        ep.Free()
    try:
        world.Create_endpoints(-1)
    except MPI.Exception as failure:
        assert failure.Get_error_class() == MPI.ERR_ARG


def ring(ep: Any) -> None:
    """Blocking calls in all threads at once."""
    rank, size = ep.rank, ep.size
    for i in range(20):
        assert ep.sendrecv((rank, i), dest=(rank + 1) % size, source=(rank - 1) % size) == ((rank - 1) % size, i)
    place = bytearray(50_000)
    request = ep.Irecv(place, (rank - 1) % size)
    ep.Send(bytes([rank]) * 50_000, (rank + 1) % size)
    request.Wait()
    assert place == bytes([(rank - 1) % size]) * 50_000


def plan(seed: int, size: int) -> list[tuple[int, int]]:
    """Destination and octets of each message of rank ``seed``."""
    chosen = random.Random(seed)
    return [(chosen.randrange(size), chosen.choice([1, 100, 5000, 20_000])) for _ in range(MESSAGES)]


def traffic(ep: Any) -> None:
    """Random messages of all to all: each comes once, whole, in order; some are probed."""
    rank, size = ep.rank, ep.size
    chosen, requests, next_of = random.Random(rank), [], defaultdict(int)
    due = sum(dest == rank for source in range(size) for dest, _ in plan(source, size))
    queue = plan(rank, size)
    status = MPI.Status()
    while queue or due:
        if queue and (chosen.random() < 0.5 or not due):
            dest, n = queue.pop(0)
            data = chosen.randbytes(n)
            number = next_of[dest, "sent"]
            next_of[dest, "sent"] += 1
            requests.append(ep.isend((number, zlib.crc32(data), data), dest, number % 5))
        elif due:
            if due % 2:
                if not ep.Iprobe(status=status):
                    continue
                number, checksum, data = ep.recv(source=status.source, tag=status.tag, status=status)
            elif not queue or ep.Iprobe():
                number, checksum, data = ep.recv(status=status)
            else:
                continue
            assert zlib.crc32(data) == checksum, "broken"
            assert number == next_of[status.source, "came"] and status.tag == number % 5, "lost, doubled or overtaken"
            next_of[status.source, "came"] += 1
            due -= 1
    MPI.Request.waitall(requests)
    ep.Barrier()
    assert not ep.Iprobe()
    ep.Barrier()  # others go on to the next part


def collectives(ep: Any) -> None:
    """Once for each endpoint; Split with colours inside one process, and Dup."""
    rank, size = ep.rank, ep.size
    again = ep.Dup()
    for each in (ep, again):
        assert each.allreduce(rank) == size * (size - 1) // 2
        assert each.gather(rank, root=size - 1) == (list(range(size)) if rank == size - 1 else None)
        assert each.scan(1) == rank + 1
        assert each.alltoall([(rank, to) for to in range(size)]) == [(of, rank) for of in range(size)]
    half = ep.Split(rank % 2, -rank)
    assert half.allgather(rank) == [r for r in range(size) if r % 2 == rank % 2][::-1]
    assert (half.size, half.rank) == (len(half.allgather(0)), half.allgather(rank).index(rank))
    assert (ep.Split(0 if rank == 0 else MPI.UNDEFINED) == MPI.COMM_NULL) == (rank > 0)
    ep.Barrier()


def main() -> None:
    threads = int(sys.argv[1])
    eps = world.Create_endpoints(threads)

    def run(ep: Any) -> None:
        try:
            for part in sys.argv[2:]:
                globals()[part](ep)
        except BaseException:
            print(traceback.format_exc(), file=sys.stderr, flush=True)
            world.Abort(1)

    ranks(eps, threads)
    running = [threading.Thread(target=run, args=(ep,), name=f"endpoint {ep.rank}") for ep in eps]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    world.Barrier()
    sys.stdout.write("ok\n")


main()
