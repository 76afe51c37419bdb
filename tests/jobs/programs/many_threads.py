"""Threads of each proc use ordinary communicators at once: ``WHAT SEED ROUNDS THREADS``.

ROUNDS may be a time, such as ``600s``: then short runs of the kind WHAT follow each other, each
with a seed of its own, and ``all`` takes the kinds in turn.

``messages``: random messages with checksums between all threads, from any source.
``exchange``: the same from each source in turn, for any number of rounds.
``communicators``: each thread makes, uses and frees communicators; no two have one context id.
``collectives``: each thread runs blocking collectives on a communicator of its own.
``kinds``: each thread draws windows, files, probes, cancels, and requests that others complete or
free.
"""

from __future__ import annotations

import faulthandler
import random
import signal
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

world: Any = MPI.COMM_WORLD
ROUNDS = {
    "messages": 5,
    "exchange": 5,
    "communicators": 1,
    "collectives": 2,
    "kinds": 8,
}
"""Rounds of each short run, where a time is given."""
STACKS_S, LONGEST_S = 120, 150
"""A short run takes about a second. One that hangs shows the stacks of all threads, then ends."""
what, seed, amount = sys.argv[1], sys.argv[2], sys.argv[3]
THREADS = int(sys.argv[4])
seconds = float(amount[:-1]) if amount.endswith("s") else 0.0
rounds = 0 if seconds else int(amount)
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
comms = [world.Dup() for _ in range(THREADS)]
wrong: list[str] = []
gate = threading.Barrier(THREADS)
clients = world.allgather(world.Get_attr(MPI.IMPI_CLIENT_COLOR))


def messages(number: int) -> None:
    """Each thread sends to the same thread of all procs, in one order, and receives from any."""
    draw = random.Random(f"{seed}/{world.rank}/{number}")
    nexts, requests = [0] * world.size, []
    for turn in range(rounds):
        octets = draw.randbytes(draw.choice((0, 1, 8, 1000, 20_000, 200_000)))
        head = (world.rank, turn, zlib.crc32(octets))
        requests += [
            world.isend((head, octets), dest=dest, tag=number)
            for dest in range(world.size)
        ]
        for _ in range(world.size):
            (source, sent, checksum), got = world.recv(
                source=MPI.ANY_SOURCE, tag=number
            )
            if (sent, checksum) != (nexts[source], zlib.crc32(got)):
                wrong.append(
                    f"thread {number}: message {sent} of {source} instead of {nexts[source]}"
                )
            nexts[source] += 1
    MPI.Request.waitall(requests)


def exchange(number: int) -> None:
    """Each thread exchanges messages with the same thread of each proc, its own one, too."""
    draw = random.Random(f"{seed}/{world.rank}/{number}")
    for turn in range(rounds):
        octets = draw.randbytes(draw.choice((0, 1, 8, 1000, 20_000, 200_000)))
        sent = (turn, number, zlib.crc32(octets))
        send = draw.choice((world.isend, world.issend))
        requests = [
            send((sent, octets), dest=dest, tag=number) for dest in range(world.size)
        ]
        for source in draw.sample(range(world.size), world.size):
            (then, one, checksum), got = world.recv(source=source, tag=number)
            if (then, one, checksum) != (turn, number, zlib.crc32(got)):
                wrong.append(
                    f"thread {number}: message {then} of {source} instead of {turn}"
                )
        MPI.Request.waitall(requests)


def communicators(number: int) -> None:
    """Different orders in different procs: threads start at once, and the scheduler decides."""
    mine = comms[number]
    for turn in range(rounds):
        made = [mine.Dup(), mine.Split(world.rank % 2, -world.rank)]
        made.append(world.Create_group(world.group, tag=number))
        side = halves[number]
        inter = side.Create_intercomm(0, world, 1 - world.rank % 2, tag=number)
        made += [inter, inter.Merge(world.rank % 2 == 1)]
        for comm in made:
            total = comm.allgather((number, turn))
            if total != [(number, turn)] * len(total):
                wrong.append(f"thread {number} turn {turn}: {total}")
        for comm in reversed(made):
            comm.Free()


def collectives(number: int) -> None:
    """Barrier, Bcast and Allreduce, in the library where a client has all procs."""
    local = home[number]
    for turn in range(rounds):
        for comm in (comms[number], local):
            comm.Barrier()
            place = bytearray([number * 16 + turn % 16 if comm.rank == 0 else 0])
            comm.Bcast([place, MPI.BYTE], root=0)
            total = comm.allreduce(comm.rank + turn)
            if (
                place[0] != number * 16 + turn % 16
                or total != comm.size * (comm.size - 1) // 2 + turn * comm.size
            ):
                wrong.append(f"thread {number} turn {turn}: {place[0]} {total}")
            one, all_ = (
                bytearray((comm.rank + turn).to_bytes(8, "little")),
                bytearray(8),
            )
            comm.Allreduce([one, MPI.INT64_T], [all_, MPI.INT64_T])
            if int.from_bytes(all_, "little") != total:
                wrong.append(f"thread {number} turn {turn}: Allreduce {list(all_)}")


def kinds(number: int) -> None:
    """Each thread writes its own part of a window and a file of all, and talks to the next proc.

    All procs draw the same kinds, so that each message has its receive.
    """
    sys.setswitchinterval(1e-6)
    draw = random.Random(f"{seed}/{number}")
    there, before = (world.rank + 1) % world.size, (world.rank - 1) % world.size
    for turn in range(rounds):
        kind = draw.choice(DRAWN)
        length = draw.choice((8, 1000, 20_000, PART))
        told = kind(
            number,
            there,
            before,
            random.Random(f"{seed}/{number}/{turn}").randbytes(length),
        )
        if not told:
            wrong.append(
                f"thread {number} turn {turn}: {kind.__name__} of {length} octets"
            )


def put(number: int, there: int, _: int, octets: bytes) -> bool:
    at, got = PART * (number + THREADS * world.rank), bytearray(len(octets))
    window.Put([octets, MPI.BYTE], there, [at, len(octets), MPI.BYTE])
    window.Flush(there)
    window.Get([got, MPI.BYTE], there, [at, len(octets), MPI.BYTE])
    window.Flush(there)
    return got == octets


def write(number: int, _: int, __: int, octets: bytes) -> bool:
    at, got = PART * (number + THREADS * world.rank), bytearray(len(octets))
    file.Write_at(at, octets)
    file.Read_at(at, got)
    return got == octets


def probe(number: int, there: int, before: int, octets: bytes) -> bool:
    sending = world.Isend([octets, MPI.BYTE], there, number)
    status = MPI.Status()
    message = world.Mprobe(before, number, status)
    got = bytearray(status.Get_count(MPI.BYTE))
    message.Recv([got, MPI.BYTE])
    sending.Wait()
    return got == octets


def cancel(number: int, _: int, before: int, octets: bytes) -> bool:
    """Cancel a receive that nothing can match."""
    receiving = world.Irecv(
        [bytearray(len(octets)), MPI.BYTE], before, THREADS + number
    )
    receiving.Cancel()
    status = MPI.Status()
    receiving.Wait(status)
    return status.Is_cancelled()


def hand_over(number: int, there: int, before: int, octets: bytes) -> bool:
    """Let another thread complete the receive of this one, and free the send."""
    got = bytearray(len(octets))
    receiving = world.Irecv([got, MPI.BYTE], before, number)
    sending = world.Issend([octets, MPI.BYTE], there, number)
    other = threading.Thread(target=lambda: (receiving.Wait(), sending.Wait()))
    other.start()
    other.join()
    return got == octets


def free_elsewhere(number: int, there: int, before: int, octets: bytes) -> bool:
    """Let another thread free the request of a send that is under way: the message arrives."""
    got, kept = bytearray(len(octets)), bytearray(octets)
    sending = world.Isend([kept, MPI.BYTE], there, number)
    other = threading.Thread(target=sending.Free)
    other.start()
    world.Recv([got, MPI.BYTE], before, number)
    other.join()
    # Its octets are ours again once the other proc has them.
    return bool(
        got == octets
        and world.sendrecv(1, before, BACK + number, None, there, BACK + number) == 1
    )


def cancel_a_send(number: int, there: int, before: int, octets: bytes) -> bool:
    """Cancel a send: it arrives whole, or not at all.

    Inside a client an MPI library may be unable to cancel, and then a long one would wait.
    """
    mine = world.Get_attr(MPI.IMPI_CLIENT_COLOR)
    libraries = mine == clients[there] and "impi pure" not in MPI.Get_library_version()
    send = world.Isend if libraries else world.Issend
    short, got = octets[:1000], bytearray(min(len(octets), 1000))
    sending = send([short, MPI.BYTE], there, ODD + number)
    sending.Cancel()
    status = MPI.Status()
    sending.Wait(status)
    taken_back = world.sendrecv(
        status.Is_cancelled(), there, BACK + number, None, before, BACK + number
    )
    if taken_back:
        right = not world.Iprobe(before, ODD + number)
    else:
        world.Recv([got, MPI.BYTE], before, ODD + number)
        right = got == short
    # The next such message must not be taken for this one.
    world.sendrecv(None, before, BACK + number, None, there, BACK + number)
    return right


def look(number: int, there: int, before: int, octets: bytes) -> bool:
    """Ask for a message until it is there."""
    sending = world.Isend([octets, MPI.BYTE], there, number)
    status = MPI.Status()
    while not world.Iprobe(before, number, status):
        pass
    got = bytearray(status.Get_count(MPI.BYTE))
    world.Recv([got, MPI.BYTE], before, number)
    sending.Wait()
    return got == octets


def persistent(number: int, there: int, before: int, octets: bytes) -> bool:
    got = bytearray(len(octets))
    both = [
        world.Send_init([octets, MPI.BYTE], there, number),
        world.Recv_init([got, MPI.BYTE], before, number),
    ]
    for _ in range(2):
        MPI.Prequest.Startall(both)
        MPI.Request.Waitall(both)
    for request in both:
        request.Free()
    return got == octets


def add(number: int, there: int, _: int, octets: bytes) -> bool:
    """Fetch and add in a place of this thread's own: each fetch sees the sum so far."""
    at = PART * (number + THREADS * world.rank)
    window.Put([bytes(8), MPI.BYTE], there, [at, 8, MPI.BYTE])
    window.Flush(there)
    one, sums = bytearray((len(octets)).to_bytes(8, "little")), []
    for _turn in range(3):
        got = bytearray(8)
        window.Fetch_and_op([one, MPI.INT64_T], [got, MPI.INT64_T], there, at)
        window.Flush(there)
        sums.append(int.from_bytes(got, "little"))
    return sums == [0, len(octets), 2 * len(octets)]


def small(number: int, there: int, before: int, octets: bytes) -> bool:
    sent = zlib.crc32(octets)
    return bool(world.sendrecv(sent, there, number, None, before, number) == sent)


BACK, ODD = 2 * THREADS, 3 * THREADS
DRAWN = (
    *(put, add, write, probe, look, cancel, cancel_a_send, hand_over, free_elsewhere),
    *(persistent, small),
)


PART = 100_000
if what in ("kinds", "all"):
    window = MPI.Win.Allocate(PART * THREADS * world.size, 1, comm=world)
    window.Lock_all()  # one epoch for the threads of this process
    folder = tempfile.TemporaryDirectory()  # of rank 0; it goes with the process
    file = MPI.File.Open(
        world, world.bcast(f"{folder.name}/shared"), MPI.MODE_RDWR | MPI.MODE_CREATE
    )
halves = [world.Split(world.rank % 2, world.rank) for _ in range(THREADS)]
home = [
    world.Split(world.Get_attr(MPI.IMPI_CLIENT_COLOR) or 0, world.rank)
    for _ in range(THREADS)
]


def run(body: Callable[[int], None], number: int) -> None:
    gate.wait()
    body(number)


def run_all(kind: str) -> None:
    running = [
        threading.Thread(target=run, args=(globals()[kind], number), daemon=True)
        for number in range(THREADS)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


if seconds:
    taken: list[str] = list(ROUNDS) if what == "all" else [what]
    runs: Counter[str] = Counter()
    until, first = time.monotonic() + seconds, seed
    while world.bcast(time.monotonic() < until and not wrong):
        kind = taken[runs.total() % len(taken)]
        rounds, seed = ROUNDS[kind], f"{first}.{runs.total()}"
        # By the kernel and by a thread of C: neither needs the lock of Python, which may be held.
        faulthandler.dump_traceback_later(STACKS_S)
        signal.alarm(LONGEST_S)
        run_all(kind)
        world.Barrier()  # a message of the next run is none for a thread of this one
        runs[kind] += 1
    if world.rank == 0:
        print("rounds of each thread:", {k: n * ROUNDS[k] for k, n in runs.items()})
else:
    run_all(what)
faulthandler.cancel_dump_traceback_later()
signal.alarm(0)
if what in ("kinds", "all"):
    file.Close()
    window.Unlock_all()
    window.Free()
world.Barrier()
sys.stdout.write(f"wrong: {wrong[:5]}\n")
