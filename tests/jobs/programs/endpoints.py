"""Endpoints across clients, a thread each: ``endpoints.py THREADS SECONDS PART...``; prints ``ok``.

The parts run once, and again until SECONDS are over.
"""

from __future__ import annotations

import random
import sys
import threading
import time
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


def ring(ep: Any, around: int) -> None:
    """Blocking calls in all threads at once."""
    rank, size = ep.rank, ep.size
    for i in range(20):
        came = ep.sendrecv(
            (rank, around, i), dest=(rank + 1) % size, source=(rank - 1) % size
        )
        assert came == ((rank - 1) % size, around, i)
    place = bytearray(50_000)
    request = ep.Irecv(place, (rank - 1) % size)
    ep.Send(bytes([rank]) * 50_000, (rank + 1) % size)
    request.Wait()
    assert place == bytes([(rank - 1) % size]) * 50_000


def plan(seed: int, size: int, around: int) -> list[tuple[int, int]]:
    """Destination and octets of each message of rank ``seed`` in a round."""
    chosen = random.Random(1000 * around + seed)
    return [
        (chosen.randrange(size), chosen.choice([1, 100, 5000, 20_000]))
        for _ in range(MESSAGES)
    ]


def traffic(ep: Any, around: int) -> None:
    """Random messages of all to all: each comes once, whole, in order; some are probed."""
    rank, size = ep.rank, ep.size
    chosen, requests, next_of = (
        random.Random(1000 * around + rank),
        [],
        defaultdict(int),
    )
    due = sum(
        dest == rank for source in range(size) for dest, _ in plan(source, size, around)
    )
    queue = plan(rank, size, around)
    status = MPI.Status()
    while queue or due:
        if queue and (chosen.random() < 0.5 or not due):
            dest, n = queue.pop(0)
            data = chosen.randbytes(n)
            number = next_of[dest, "sent"]
            next_of[dest, "sent"] += 1
            requests.append(
                ep.isend((number, zlib.crc32(data), data), dest, number % 5)
            )
        elif due:
            if due % 2:
                if not ep.Iprobe(status=status):
                    continue
                number, checksum, data = ep.recv(
                    source=status.source, tag=status.tag, status=status
                )
            elif not queue or ep.Iprobe():
                number, checksum, data = ep.recv(status=status)
            else:
                continue
            assert zlib.crc32(data) == checksum, "broken"
            assert (
                number == next_of[status.source, "came"] and status.tag == number % 5
            ), "lost, doubled or overtaken"
            next_of[status.source, "came"] += 1
            due -= 1
    MPI.Request.waitall(requests)
    ep.Barrier()
    assert not ep.Iprobe()
    ep.Barrier()  # others go on to the next part


def collectives(ep: Any, around: int) -> None:
    """Once for each endpoint; Split with colours inside one process, and Dup."""
    rank, size = ep.rank, ep.size
    again = ep.Dup()
    for each in (ep, again):
        assert each.allreduce(rank) == size * (size - 1) // 2
        assert each.gather(rank, root=size - 1) == (
            list(range(size)) if rank == size - 1 else None
        )
        assert each.scan(around) == around * (rank + 1)
        assert each.alltoall([(rank, to) for to in range(size)]) == [
            (of, rank) for of in range(size)
        ]
    half = ep.Split(rank % 2, -rank)
    threads = size // world.size
    expected = sorted(
        (r for r in range(size) if r % 2 == rank % 2), key=lambda r: (r // threads, -r)
    )
    assert half.allgather(rank) == expected, "the key orders inside a process only"
    assert (half.size, half.rank) == (
        len(half.allgather(0)),
        half.allgather(rank).index(rank),
    )
    assert (ep.Split(0 if rank == 0 else MPI.UNDEFINED) == MPI.COMM_NULL) == (rank > 0)
    ep.Barrier()
    again.Free()
    half.Free()


def rush(ep: Any, around: int) -> None:
    """More than is kept for a slot that is not there yet, as soon as a duplicate is there."""
    new = ep.Dup()
    requests = [
        new.Isend(bytes([i]) * 8000, (ep.rank + 1) % ep.size, i) for i in range(200)
    ]
    place = bytearray(8000)
    for i in range(200):
        new.Recv(place, (ep.rank - 1) % ep.size, i)
        assert place == bytes([i]) * 8000
    MPI.Request.Waitall(requests)
    ep.Barrier()
    new.Free()


def refused(ep: Any, around: int) -> None:
    """A call that needs a group of processes raises one sentence."""
    group = ep.Get_group()
    calls = {
        "windows": lambda: MPI.Win.Create(bytearray(8), comm=ep),
        "of all kinds": lambda: MPI.Win.Allocate(8, comm=ep),
        "files": lambda: MPI.File.Open(ep, "nowhere"),
        "processes": lambda: ep.Spawn("nothing"),
    }
    for what, call in calls.items():
        try:
            call()
        except MPI.Exception as failure:
            assert failure.Get_error_class() == MPI.ERR_COMM, what
            assert "need a group of processes" in str(failure), what
        else:
            raise AssertionError(what)
    for create in (ep.Create, ep.Create_group):
        try:
            create(group)
        except NotImplementedError as failure:
            assert "Split" in str(failure)


def one_refuses(ep: Any, around: int) -> None:
    """An endpoint that refuses a collective tells all others, by the ports of its slots, too."""
    odd = ep.size - 1
    for root in (0, odd):
        again, place = ep.Dup(), bytearray(4)
        ep.Barrier()  # slots are open
        again.Bcast(place, root=0)
        ep.Barrier()  # who is still in that one would hear of the next
        try:
            again.Bcast(place, root=again.size if again.rank == odd else root)
            again.Barrier()
        except MPI.Exception as failure:
            assert failure.Get_error_class() == MPI.ERR_ROOT, failure
        else:
            raise AssertionError("nobody has refused")
        ep.Barrier()
        again.Free()


CONNECTED = {
    "disjoint": ((0, 1), (2, 3, 4, 5), 1, 4),
    "rule 1": ((0, 1, 2), (3, 4, 5), 0, 5),
    "rule 2": ((0, 1, 2), (3, 4, 5), 0, 3),
    "rule 3a": ((0, 1, 2), (3, 4, 5), 2, 3),
    "rule 3b": ((2,), (3, 0, 1, 4, 5), 2, 3),
    "rule 3c": ((2,), (3,), 2, 3),
}
"""Both groups and their leaders, of three processes with two endpoints; rules for shared ones."""


def intercommunicators(ep: Any, around: int) -> None:
    """Two groups of endpoints, also with endpoints of one process in both."""
    assert ep.size == 2 * world.size == 6
    for name, (first, second, *leaders) in CONNECTED.items():
        groups = (first, second)
        side = next((i for i in (0, 1) if ep.rank in groups[i]), None)
        local = ep.Split(MPI.UNDEFINED if side is None else side)
        if side is not None:
            order = local.allgather(ep.rank)  # by process
            there = sorted(groups[1 - side])
            assert sorted(groups[side]) == order
            inter = local.Create_intercomm(
                order.index(leaders[side]), ep, leaders[1 - side], 7
            )
            assert isinstance(inter, MPI.Intercomm), name
            connected(inter, side, ep.rank, order, there)
            local.Free()
    ep.Barrier()


def connected(
    inter: Any, side: int, me: int, here: list[int], there: list[int]
) -> None:
    """An intercommunicator: messages, collectives, Dup, Split and Merge."""
    assert (inter.rank, inter.size, inter.remote_size) == (
        here.index(me),
        len(here),
        len(there),
    )
    both = [here, there] if side == 0 else [there, here]
    again = inter.Dup()
    for each in (inter, again):
        requests = [
            each.isend((me, other), dest, dest) for dest, other in enumerate(there)
        ]
        status = MPI.Status()
        for _ in there:
            sender, receiver = each.recv(
                source=MPI.ANY_SOURCE, tag=inter.rank, status=status
            )
            assert (sender, receiver) == (there[status.source], me)
        MPI.Request.waitall(requests)
        assert each.allgather(me) == there
        assert each.allreduce(me) == sum(there)
        root = (MPI.ROOT if inter.rank == 0 else MPI.PROC_NULL) if side == 0 else 0
        assert each.bcast(me, root) == (both[0][0] if side else None)
        each.Barrier()
    highs = [
        lambda r: r in both[1],
        lambda r: r in both[0],
        lambda _: True,
        lambda r: r % 2,
    ]
    for high in highs:
        merged = inter.Merge(high(me))
        rows = sorted(
            (bool(high(r)), group.index(r), i, r)
            for i, group in enumerate(both)
            for r in group
        )
        assert merged.allgather(me) == [r for *_, r in rows]
        assert isinstance(merged, MPI.Intracomm)
        merged.Free()
    part = inter.Split(inter.rank % 2)
    others = there[inter.rank % 2 :: 2]
    assert bool(part) == bool(others)
    if part:
        assert part.allgather(me) == others
        assert part.allgather(part.rank) == list(range(len(others)))
        part.Free()
    again.Free()
    inter.Free()


def main() -> None:
    threads, end = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
    eps = world.Create_endpoints(threads)

    def run(ep: Any) -> None:
        try:
            around, again = 0, True
            while again:
                for part in sys.argv[3:]:
                    globals()[part](ep, around)
                around += 1
                again = ep.bcast(time.monotonic() < end)
            if ep.rank == 0:
                print(
                    f"{around} rounds of {MESSAGES * ep.size} messages",
                    file=sys.stderr,
                    flush=True,
                )
        except BaseException:
            print(traceback.format_exc(), file=sys.stderr, flush=True)
            world.Abort(1)

    ranks(eps, threads)
    running = [
        threading.Thread(target=run, args=(ep,), name=f"endpoint {ep.rank}")
        for ep in eps
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    world.Barrier()
    sys.stdout.write("ok\n")


main()
