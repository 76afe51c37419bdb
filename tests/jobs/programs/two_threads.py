"""Threads of each proc and of the other: ``blocking``, ``polling`` or ``accepting``."""

from __future__ import annotations

import sys
import threading
import time

from mpi4py import MPI

from impi.engine import threads

world = MPI.COMM_WORLD
other = 1 - world.rank
wrong = []


def in_engine(ident: int, module: str = "") -> bool:
    """Return whether a thread is in a call, be it between two turns."""
    return any(frame.f_globals["__name__"].startswith(f"impi.engine.{module}") for frame in threads._stack(ident))


def blocking() -> list[threading.Thread]:
    """Let a thread of each proc wait for a message that the other thread of its peer sends."""
    receiving = threading.Thread(target=lambda: world.recv(source=other, tag=1))

    def send() -> None:
        while receiving.is_alive() and not in_engine(receiving.ident or 0):
            time.sleep(1e-3)
        world.send(None, other, 1)

    return [receiving, threading.Thread(target=send)]


def accepting() -> list[threading.Thread]:
    """Let a thread wait in Accept while another one tells the name of the port."""
    if world.rank:
        return [threading.Thread(target=lambda: MPI.COMM_SELF.Connect(world.recv(source=0)).Disconnect())]
    port = MPI.Open_port()
    waiting = threading.Thread(target=lambda: MPI.COMM_SELF.Accept(port).Disconnect())

    def tell() -> None:
        while not in_engine(waiting.ident or 0, "visitors"):
            time.sleep(1e-3)
        world.send(port, 1)

    return [waiting, threading.Thread(target=tell)]


def exchange(tag: int) -> None:
    """Exchange messages; no call waits for another thread."""
    for turn in range(100):
        sending = world.isend((tag, turn), other, tag)
        while not world.iprobe(source=other, tag=tag):
            time.sleep(0)
        if world.recv(source=other, tag=tag) != (tag, turn):
            wrong.append(tag)
        while not sending.test()[0]:
            time.sleep(0)


def polling() -> list[threading.Thread]:
    """Let three threads of each proc exchange messages."""
    return [threading.Thread(target=exchange, args=(tag,)) for tag in (1, 2, 3)]


running = {"accepting": accepting, "blocking": blocking, "polling": polling}[sys.argv[1]]()
for thread in running:
    thread.start()
for thread in running:
    thread.join()
world.Barrier()
sys.stdout.write(f"wrong: {wrong}\n")
