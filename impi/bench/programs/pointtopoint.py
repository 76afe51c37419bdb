"""Two ranks, as osu_latency, osu_bw, osu_bibw and osu_mbw_mr: latency, bandwidths, message rate.

Ranks 0 and 1 of MPI_COMM_WORLD, or with ``--local N`` of a communicator of its first N ranks;
others wait at the end. With ``--blocks`` messages are vectors of blocks of so many octets, with
gaps of the same length. As in OSU's programs, messages of more than 8 KiB are sent a tenth as
often. Latency is half a round trip in us; bandwidths are 10^6 octets/s; rates messages/s, over
acknowledged windows.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from mpi4py import MPI
from osucommon import arguments, numbers, pin, tell  # type: ignore[import-not-found]

_TYPES = {"byte": (np.uint8, MPI.BYTE), "float64": (np.float64, MPI.DOUBLE)}
_TAG = 1
_LARGE = 8192


class _Pair:
    """Two ranks of a communicator and their buffers."""

    def __init__(self, comm: MPI.Comm, size: int, block: int, options: argparse.Namespace) -> None:
        kind, datatype = _TYPES[options.type]
        count = max(size // np.dtype(kind).itemsize, 1)
        self.comm, self.size = comm, count * np.dtype(kind).itemsize
        self.window: int = options.window
        self.iterations: int = options.iterations
        self.skip: int = options.skip
        self.first = comm.Get_rank() == 0
        self.peer = 1 if self.first else 0
        elements, spread = count, count
        if block:
            datatype = datatype.Create_vector(
                self.size // block, block // np.dtype(kind).itemsize, 2 * block // np.dtype(kind).itemsize
            ).Commit()
            elements, spread = 1, 2 * count
        self.out = [np.ones(spread, kind), elements, datatype]
        self.into = [np.zeros(spread, kind), elements, datatype]
        self.acknowledgment = [bytearray(4), MPI.BYTE]

    def timed(self, step: Callable[[], None]) -> float:
        """Seconds of one step, on the average."""
        few = 10 if self.size > _LARGE else 1
        iterations = max(self.iterations // few, 1)
        for _ in range(max(self.skip // few, 1)):
            step()
        begin = time.perf_counter()
        for _ in range(iterations):
            step()
        return (time.perf_counter() - begin) / iterations

    def latency(self) -> float:
        send, recv, out, into, peer = self.comm.Send, self.comm.Recv, self.out, self.into, self.peer

        def ping() -> None:
            send(out, peer, _TAG)
            recv(into, peer, _TAG)

        def pong() -> None:
            recv(into, peer, _TAG)
            send(out, peer, _TAG)

        return self.timed(ping if self.first else pong) / 2 * 1e6

    def bandwidth(self) -> float:
        return self.size / self._message() / 1e6

    def rate(self) -> float:
        return 1 / self._message()

    def bidirectional(self) -> float:
        window = range(self.window)

        def exchange() -> None:
            requests = [self.comm.Irecv(self.into, self.peer, _TAG) for _ in window]
            requests += [self.comm.Isend(self.out, self.peer, _TAG) for _ in window]
            MPI.Request.Waitall(requests)
            if self.first:
                self.comm.Recv(self.acknowledgment, self.peer, _TAG + 1)
            else:
                self.comm.Send(self.acknowledgment, self.peer, _TAG + 1)

        return 2 * self.size * self.window / self.timed(exchange) / 1e6

    def _message(self) -> float:
        window, peer = range(self.window), self.peer

        def sender() -> None:
            isend, out = self.comm.Isend, self.out
            MPI.Request.Waitall([isend(out, peer, _TAG) for _ in window])
            self.comm.Recv(self.acknowledgment, peer, _TAG + 1)

        def receiver() -> None:
            irecv, into = self.comm.Irecv, self.into
            MPI.Request.Waitall([irecv(into, peer, _TAG) for _ in window])
            self.comm.Send(self.acknowledgment, peer, _TAG + 1)

        return self.timed(sender if self.first else receiver) / self.window


_MEASURES: dict[str, tuple[Callable[[_Pair], float], str]] = {
    "latency": (_Pair.latency, "Latency (us)"),
    "bandwidth": (_Pair.bandwidth, "Bandwidth (MB/s)"),
    "bidirectional": (_Pair.bidirectional, "Bandwidth (MB/s)"),
    "rate": (_Pair.rate, "Messages/s"),
}


def main() -> None:
    """Measure, and let rank 0 tell."""
    parser = arguments("Measure two ranks.")
    parser.add_argument("measure", choices=tuple(_MEASURES))
    parser.add_argument("--type", choices=tuple(_TYPES), default="byte", help="what messages consist of")
    parser.add_argument("--window", type=int, default=64, help="messages of a window")
    parser.add_argument(
        "--blocks", type=numbers, default=[0], metavar="LIST", help="octets of blocks with gaps between"
    )
    parser.add_argument("--local", type=int, default=0, metavar="N", help="on a communicator of the first N ranks")
    options = parser.parse_args()
    world = MPI.COMM_WORLD
    pin(options.pin)
    comm: MPI.Comm = world
    if options.local:
        comm = world.Split(0 if world.Get_rank() < options.local else 1, world.Get_rank())
    results = {}
    function, unit = _MEASURES[options.measure]
    if world.Get_rank() < 2:
        for size in options.sizes:
            for block in options.blocks:
                name = f"{options.measure}/{size}" + (f"/{block}" if block else "")
                results[name] = function(_Pair(comm, size, block, options))
    if world.Get_rank() == 0:
        tell(f"{options.measure}, two ranks, {options.type}", unit, results, as_json=options.json)
    world.Barrier()


main()
