"""Threads of each proc use ordinary communicators at once: ``WHAT SEED ROUNDS THREADS``.

``messages``: random messages with checksums between all threads, from any source.
``exchange``: the same from each source in turn, for any number of rounds.
``communicators``: each thread makes, uses and frees communicators; no two have one context id.
``collectives``: each thread runs blocking collectives on a communicator of its own.
``kinds``: each thread draws windows, files, probes, cancels, and requests that others complete.
"""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

world: Any = MPI.COMM_WORLD
what, seed = sys.argv[1], int(sys.argv[2])
rounds, THREADS = int(sys.argv[3]), int(sys.argv[4])
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
comms = [world.Dup() for _ in range(THREADS)]
wrong: list[str] = []
gate = threading.Barrier(THREADS)


def messages(number: int) -> None:
    """Each thread sends to the same thread of all procs, in one order, and receives from any."""
    draw = random.Random(f"{seed}/{world.rank}/{number}")
    nexts, requests = [0] * world.size, []
    for turn in range(rounds):
        octets = draw.randbytes(draw.choice((0, 1, 8, 1000, 20_000, 200_000)))
        head = (world.rank, turn, zlib.crc32(octets))
        requests += [world.isend((head, octets), dest=dest, tag=number) for dest in range(world.size)]
        for _ in range(world.size):
            (source, sent, checksum), got = world.recv(source=MPI.ANY_SOURCE, tag=number)
            if (sent, checksum) != (nexts[source], zlib.crc32(got)):
                wrong.append(f"thread {number}: message {sent} of {source} instead of {nexts[source]}")
            nexts[source] += 1
    MPI.Request.waitall(requests)


def exchange(number: int) -> None:
    """Each thread exchanges messages with the same thread of each proc, its own one, too."""
    draw = random.Random(f"{seed}/{world.rank}/{number}")
    for turn in range(rounds):
        octets = draw.randbytes(draw.choice((0, 1, 8, 1000, 20_000, 200_000)))
        sent = (turn, number, zlib.crc32(octets))
        send = draw.choice((world.isend, world.issend))
        requests = [send((sent, octets), dest=dest, tag=number) for dest in range(world.size)]
        for source in draw.sample(range(world.size), world.size):
            (then, one, checksum), got = world.recv(source=source, tag=number)
            if (then, one, checksum) != (turn, number, zlib.crc32(got)):
                wrong.append(f"thread {number}: message {then} of {source} instead of {turn}")
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
            if place[0] != number * 16 + turn % 16 or total != comm.size * (comm.size - 1) // 2 + turn * comm.size:
                wrong.append(f"thread {number} turn {turn}: {place[0]} {total}")
            one, all_ = bytearray((comm.rank + turn).to_bytes(8, "little")), bytearray(8)
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
        kind = draw.choice((put, write, probe, cancel, hand_over, small))
        length = draw.choice((8, 1000, 20_000, PART))
        told = kind(number, there, before, random.Random(f"{seed}/{number}/{turn}").randbytes(length))
        if not told:
            wrong.append(f"thread {number} turn {turn}: {kind.__name__} of {length} octets")


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
    receiving = world.Irecv([bytearray(len(octets)), MPI.BYTE], before, THREADS + number)
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


def small(number: int, there: int, before: int, octets: bytes) -> bool:
    sent = zlib.crc32(octets)
    return bool(world.sendrecv(sent, there, number, None, before, number) == sent)


PART = 100_000
if what == "kinds":
    window = MPI.Win.Allocate(PART * THREADS * world.size, 1, comm=world)
    window.Lock_all()  # one epoch for the threads of this process
    folder = tempfile.TemporaryDirectory()  # of rank 0; it goes with the process
    file = MPI.File.Open(world, world.bcast(f"{folder.name}/shared"), MPI.MODE_RDWR | MPI.MODE_CREATE)
halves = [world.Split(world.rank % 2, world.rank) for _ in range(THREADS)]
home = [world.Split(world.Get_attr(MPI.IMPI_CLIENT_COLOR) or 0, world.rank) for _ in range(THREADS)]
body: Callable[[int], None] = globals()[what]


def run(number: int) -> None:
    gate.wait()
    body(number)


running = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(THREADS)]
for thread in running:
    thread.start()
for thread in running:
    thread.join()
if what == "kinds":
    file.Close()
    window.Unlock_all()
    window.Free()
world.Barrier()
sys.stdout.write(f"wrong: {wrong[:5]}\n")
