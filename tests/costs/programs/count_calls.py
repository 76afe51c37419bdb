"""Count what each operation costs a proc; rank 0 prints JSON: by name, the most of any rank.

Without an argument: Python calls, C calls, page faults, and system calls that moved something
(looks of a wait that found nothing are not counted: time decides how many there are). With
``packets``: the IMPI packets that the proc sends to other clients; counting them adds calls.

The least of many repetitions counts: a busy machine can add a turn of a wait, but takes none away.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np
import sent_packets  # type: ignore[import-not-found]

if sys.argv[1:] == ["packets"]:
    sent_packets.keep()  # before MPI makes sockets
from mpi4py import MPI

if TYPE_CHECKING:
    from mpi4py.typing import BufSpec

REPEATS = 40
SYSTEM = (
    "socket.send",
    "socket.sendmsg",
    "socket.recv_into",
    "socket.recvmsg_into",
    "eventfd_write",
    "eventfd_read",
)

comm = MPI.COMM_WORLD
half = comm.size // 2
mate = (comm.rank + half) % comm.size
first = comm.rank < half
calls = [0, 0, 0]


def note(frame: FrameType, event: str, argument: object) -> None:
    """Count a call of a Python or of a C function, and a return of a system call."""
    if event == "call":
        calls[0] += 1
    elif event == "c_call":
        calls[1] += 1
    elif event == "c_return" and getattr(argument, "__qualname__", "") in SYSTEM:
        calls[2] += 1


def counted(operation: Callable[[], object]) -> list[int]:
    """Return the least Python calls, C calls, page faults and system calls of an operation."""
    least = [1 << 30] * 4
    for repeat in range(REPEATS):
        comm.Barrier()
        calls[:] = 0, 0, 0
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        sys.setprofile(note)
        try:
            operation()
        finally:
            sys.setprofile(None)
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
        if repeat >= 3:  # the first ones make what lasts
            least = [
                min(pair)
                for pair in zip(
                    least, (calls[0], calls[1] - 1, faults, calls[2]), strict=True
                )
            ]
    return least


def packets_of(operation: Callable[[], object]) -> list[int]:
    """Return the least packets of an operation; PROTOACKs for earlier ones are a part."""
    least = 1 << 30
    for repeat in range(REPEATS):
        comm.Barrier()
        sent_packets.sent.clear()
        operation()
        if repeat >= 3:
            least = min(least, sent_packets.count())
    return [least]


def exchange(send: BufSpec, receive: BufSpec) -> Callable[[], None]:
    """Return a round trip: the first half sends first."""

    def run() -> None:
        if first:
            comm.Send(send, mate)
            comm.Recv(receive, mate)
        else:
            comm.Recv(receive, mate)
            comm.Send(send, mate)

    return run


def objects() -> None:
    """Exchange a small pickled object."""
    if first:
        comm.send(1, mate)
        comm.recv(source=mate)
    else:
        comm.recv(source=mate)
        comm.send(1, mate)


def window(send: BufSpec, receives: Sequence[BufSpec]) -> Callable[[], None]:
    """Return 16 messages at once each way."""

    def run() -> None:
        requests = [comm.Irecv(each, mate) for each in receives]
        requests += [comm.Isend(send, mate) for _ in receives]
        MPI.Request.Waitall(requests)

    return run


def persistent(send: BufSpec, receive: BufSpec) -> Callable[[], None]:
    """Return persistent requests to start and to wait for."""
    requests = [comm.Recv_init(receive, mate), comm.Send_init(send, mate)]

    def run() -> None:
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)

    return run


def operations() -> dict[str, Callable[[], object]]:
    """Return all operations by name."""
    found: dict[str, Callable[[], object]] = {}
    octets, room = bytearray(8), bytearray(8)
    found["Send+Recv 8 of bytearray"] = exchange(octets, room)
    for size in (8, 16 << 10, 64 << 10, 1 << 20):
        send, receive = np.arange(size // 8, dtype=np.float64), np.empty(size // 8)
        found[f"Send+Recv {size} of float64"] = exchange(send, receive)
    send, receive = np.zeros(1), np.zeros(1)
    found["Send+Recv [array, DOUBLE]"] = exchange(
        [send, MPI.DOUBLE], [receive, MPI.DOUBLE]
    )
    found["Sendrecv 8 of float64"] = lambda: comm.Sendrecv(
        send, mate, 0, receive, mate, 0
    )
    found["16 Isend+Irecv 8 of float64"] = window(
        send, [np.zeros(1) for _ in range(16)]
    )
    found["persistent 8 of float64"] = persistent(send, receive)
    found["send+recv of an int"] = objects
    found["Barrier"] = comm.Barrier
    for size in (8, 64 << 10, 1 << 20):
        a, b = np.ones(size // 8), np.zeros(size // 8)
        many = np.zeros(size // 8 * comm.size)
        parts = np.ones(size // 8 * comm.size)
        found[f"Allreduce {size}"] = partial(comm.Allreduce, a, b)
        found[f"Bcast {size}"] = partial(comm.Bcast, a)
        found[f"Allgather {size}"] = partial(comm.Allgather, a, many)
        found[f"Alltoall {size}"] = partial(comm.Alltoall, parts, many)
    return found


if __name__ == "__main__":
    count = counted
    if sys.argv[1:] == ["packets"]:
        count = packets_of
    table = {name: count(operation) for name, operation in operations().items()}
    both = comm.gather(table)
    if both is not None:
        print(
            json.dumps(
                {
                    name: [
                        max(column) for column in zip(*(each[name] for each in both))
                    ]
                    for name in table
                }
            )
        )
