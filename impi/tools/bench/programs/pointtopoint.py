"""Two ranks, as osu_latency, osu_bw, osu_bibw and osu_mbw_mr: latency, bandwidths, message rate.

The two are ranks 0 and 1 of MPI_COMM_WORLD, or with ``--local N`` of a communicator of its first N
ranks; others wait at the end. Messages are numpy arrays of float64 by default, as in
``comm.Send(a, dest=1)``. ``--data`` makes them a bytearray, or gives a count and a type with them.
With ``--blocks`` they are vectors of blocks of that many octets, with gaps of the same length. As
in OSU's programs, messages of more than 8 KiB are sent a tenth as often. Latency is half a round
trip in us, bandwidths are in 10^6 octets/s, rates in messages/s over acknowledged windows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI
from osucommon import arguments, numbers, pin, tell  # type: ignore[import-not-found]

DATA = ("array", "bytearray", "byte", "float64")
"""Forms of a message: a numpy array of float64, a bytearray, and both with count and type."""
LARGE = 8192
"""Octets of a message above which all is done a tenth as often."""
_TYPES = {"byte": (np.uint8, MPI.BYTE), "float64": (np.float64, MPI.DOUBLE)}


class Pair:
    """One of two ranks that send each other messages of ``size`` octets."""

    def __init__(
        self, comm: MPI.Comm, size: int, block: int, options: argparse.Namespace
    ) -> None:
        self.comm = comm
        self.window: int = options.window
        self.iterations: int = options.iterations
        self.skip: int = options.skip
        self.first = comm.Get_rank() == 0
        self.peer = 1 if self.first else 0
        self.size, self.out, self.into = _messages(options.data, size, block)
        self.acknowledgment = [bytearray(4), MPI.BYTE]

    def timed(self, step: Callable[[], None]) -> float:
        few = 10 if self.size > LARGE else 1

        iterations = max(self.iterations // few, 1)
        for _ in range(max(self.skip // few, 1)):
            step()

        begin = time.perf_counter()
        for _ in range(iterations):
            step()

        return (time.perf_counter() - begin) / iterations

    def latency(self) -> float:
        send, recv, out, into, peer = (
            self.comm.Send,
            self.comm.Recv,
            self.out,
            self.into,
            self.peer,
        )

        def ping() -> None:
            send(out, dest=peer)
            recv(into, source=peer)

        def pong() -> None:
            recv(into, source=peer)
            send(out, dest=peer)

        return self.timed(ping if self.first else pong) / 2 * 1e6

    def bandwidth(self) -> float:
        return self.size / self._message() / 1e6

    def rate(self) -> float:
        return 1 / self._message()

    def bidirectional(self) -> float:
        window = range(self.window)

        def exchange() -> None:
            requests = [self.comm.Irecv(self.into, source=self.peer) for _ in window]
            requests += [self.comm.Isend(self.out, dest=self.peer) for _ in window]

            MPI.Request.Waitall(requests)
            if self.first:
                self.comm.Recv(self.acknowledgment, source=self.peer)
            else:
                self.comm.Send(self.acknowledgment, dest=self.peer)

        return 2 * self.size * self.window / self.timed(exchange) / 1e6

    def _message(self) -> float:
        window, peer = range(self.window), self.peer

        def sender() -> None:
            isend, out = self.comm.Isend, self.out
            MPI.Request.Waitall([isend(out, dest=peer) for _ in window])
            self.comm.Recv(self.acknowledgment, source=peer)

        def receiver() -> None:
            irecv, into = self.comm.Irecv, self.into
            MPI.Request.Waitall([irecv(into, source=peer) for _ in window])
            self.comm.Send(self.acknowledgment, dest=peer)

        return self.timed(sender if self.first else receiver) / self.window


def _messages(data: str, size: int, block: int) -> tuple[int, Any, Any]:
    """Return the octets of a message, the buffer to send, and the buffer to receive into."""

    if data == "bytearray":
        return size, bytearray(size), bytearray(size)

    kind, datatype = _TYPES.get(data, _TYPES["float64"])
    octets = np.dtype(kind).itemsize

    count = max(size // octets, 1)
    if data == "array":
        return count * octets, np.ones(count), np.zeros(count)

    elements, spread = count, count
    if block:
        blocks, length = count * octets // block, block // octets
        datatype = datatype.Create_vector(blocks, length, 2 * length).Commit()
        elements, spread = 1, 2 * count

    return (
        count * octets,
        [np.ones(spread, kind), elements, datatype],
        [np.zeros(spread, kind), elements, datatype],
    )


_MEASURES: dict[str, tuple[Callable[[Pair], float], str]] = {
    "latency": (Pair.latency, "Latency (us)"),
    "bandwidth": (Pair.bandwidth, "Bandwidth (MB/s)"),
    "bidirectional": (Pair.bidirectional, "Bandwidth (MB/s)"),
    "rate": (Pair.rate, "Messages/s"),
}


def main() -> None:
    """Measure, and print the results at rank 0."""

    parser = arguments("Measure two ranks.")
    parser.add_argument("measure", choices=tuple(_MEASURES))
    parser.add_argument(
        "--data", choices=DATA, default="array", help="what messages are"
    )
    parser.add_argument("--window", type=int, default=64, help="messages of a window")
    parser.add_argument(
        "--blocks",
        type=numbers,
        default=[0],
        metavar="LIST",
        help="octets of blocks with gaps between",
    )
    parser.add_argument(
        "--local",
        type=int,
        default=0,
        metavar="N",
        help="on a communicator of the first N ranks",
    )
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    pin(options.pin)

    comm: MPI.Comm = world
    if options.local:
        comm = world.Split(
            0 if world.Get_rank() < options.local else 1, world.Get_rank()
        )

    results = {}

    function, unit = _MEASURES[options.measure]
    # Ranks of a measure are 0 and 1 of either communicator. The others
    # have nothing to do until the end.
    if world.Get_rank() < 2:
        for size in options.sizes:
            for block in options.blocks:
                name = f"{options.measure}/{size}" + (f"/{block}" if block else "")
                results[name] = function(Pair(comm, size, block, options))

    if world.Get_rank() == 0:
        tell(
            f"{options.measure}, two ranks, {options.data}",
            unit,
            results,
            as_json=options.json,
        )

    world.Barrier()


if __name__ == "__main__":
    main()
