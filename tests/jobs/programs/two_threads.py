"""Threads of each proc exchange messages with those of the other: ``blocking`` or ``polling``."""

from __future__ import annotations

import sys
import threading
import time

from mpi4py import MPI

from impi.engine import threads

threads.LIMIT_S = 1.0
world = MPI.COMM_WORLD
other = 1 - world.rank
wrong = []


def blocking(tag: int) -> None:
    """Play ping-pong; each receive waits for a message of the other proc's same thread."""
    for turn in range(100):
        if world.rank == 0:
            world.send((tag, turn), other, tag)
        if world.recv(source=other, tag=tag) != (tag, turn):
            wrong.append(tag)
        if world.rank == 1:
            world.send((tag, turn), other, tag)


def polling(tag: int) -> None:
    """Exchange messages; no call waits for another thread."""
    for turn in range(100):
        sending = world.isend((tag, turn), other, tag)
        while not world.iprobe(source=other, tag=tag):
            time.sleep(0)
        if world.recv(source=other, tag=tag) != (tag, turn):
            wrong.append(tag)
        while not sending.test()[0]:
            time.sleep(0)


running = [threading.Thread(target=globals()[sys.argv[1]], args=(tag,)) for tag in (1, 2, 3)]
for thread in running:
    thread.start()
for thread in running:
    thread.join()
world.Barrier()
sys.stdout.write(f"wrong: {wrong}\n")
