"""Threads of each proc and of the other: ``blocking``, ``polling`` or ``accepting``."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from mpi4py import MPI

world = MPI.COMM_WORLD
other = 1 - world.rank
wrong = []


def telling(
    body: Callable[[], object], come: threading.Event, module: str = ""
) -> threading.Thread:
    """Return a thread that says when it comes into a module of the engine."""

    def profile(frame: FrameType, _: str, __: object) -> None:
        if frame.f_globals["__name__"].startswith(f"impi.rank.engine.{module}"):
            sys.setprofile(None)
            come.set()

    def run() -> None:
        sys.setprofile(profile)
        body()

    return threading.Thread(target=run)


def blocking() -> list[threading.Thread]:
    """Let a thread of each proc wait for a message that the other thread of its peer sends."""
    come = threading.Event()

    def send() -> None:
        come.wait()
        world.send(None, other, 1)

    return [
        telling(lambda: world.recv(source=other, tag=1), come),
        threading.Thread(target=send),
    ]


def accepting() -> list[threading.Thread]:
    """Let a thread wait in Accept while another one tells the name of the port."""
    if world.rank:
        return [
            threading.Thread(
                target=lambda: MPI.COMM_SELF.Connect(world.recv(source=0)).Disconnect()
            )
        ]
    port, come = MPI.Open_port(), threading.Event()

    def tell() -> None:
        come.wait()
        world.send(port, 1)

    waiting = telling(
        lambda: MPI.COMM_SELF.Accept(port).Disconnect(), come, "job.visitors"
    )
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


running = {"accepting": accepting, "blocking": blocking, "polling": polling}[
    sys.argv[1]
]()
for thread in running:
    thread.start()
for thread in running:
    thread.join()
world.Barrier()
sys.stdout.write(f"wrong: {wrong}\n")
