"""The program of a measuring job: ``python -m impi.tools.tune.measure FILE [--quick]``.

Rank 0 of each client takes part, and the other procs wait. Rank 0 of the job writes a JSON object
to FILE: the pLogP parameters of pairs of clients (by Kielmann's method), and the time of each
algorithm among all clients.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

import impi.MPI
from impi.protocol.decisions import ALGORITHMS, SPECIFICATION, Decisions, Rule
from impi.tools.tune.choice import best
from impi.tools.tune.plogp import MEASUREMENT, Parameters, derive, typical

MPI: Any = impi.MPI

_SIZES: Final = (0, 64, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20)
_OPERATION_SIZES: Final = (64, 1 << 10, 1 << 13, 1 << 16, 1 << 19)
_TAG: Final = 7
_ENOUGH_S: Final = 0.1  # rough time for one figure
_LEAST, _MOST = 5, 60
# Round trips that a receiver waits until a message has come for certain
_WAIT: Final = 3


def _times(run: Callable[[], float], expected: float, quick: bool) -> float:
    """Return the median of worthwhile runs of ``run``; their number follows from ``expected``."""
    return median(run() for _ in range(_repeats(expected, quick)))


def _repeats(expected: float, quick: bool) -> int:
    count = int(min(max(_ENOUGH_S / max(expected, 1e-6), _LEAST), _MOST))
    return max(count // 4, 3) if quick else count


@contextmanager
def _decided(comm: Any, operation: str, rule: Rule) -> Iterator[None]:
    """Make ``rule`` the only algorithm of the operation inside a ``with``, equally at all ranks."""
    comm._algorithms.decide(Decisions.of({operation: (rule,)}))
    try:
        yield
    finally:
        comm._algorithms.decide(None)


class _Pair:
    """The two ranks of a communicator; rank 0 reads the clock. Both call the same methods."""

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._leads = comm.rank == 0
        self._other = 1 - comm.rank
        self._nothing = np.zeros(0, np.uint8)

    def _agreed(self, value: float) -> float:
        # Both have to repeat a step equally often, and only one of them reads the clock.
        there = np.array([value])
        (self._comm.Send if self._leads else self._comm.Recv)(there, self._other, _TAG)
        return float(there[0])

    def round_trips(self, quick: bool) -> dict[int, float]:
        """Return seconds by m, for m octets there and none back.

        Sizes take turns: other load comes and goes, and only differences between sizes count.
        """

        data = {octets: np.zeros(octets, np.uint8) for octets in _SIZES}
        found: dict[int, list[float]] = {octets: [] for octets in _SIZES}

        # The first trips warm up, and tell how many more are worth their time.
        warm = sum(self._round_trip(there) for there in data.values())
        for _ in range(_repeats(self._agreed(warm) / len(_SIZES), quick)):
            for octets, there in data.items():
                found[octets].append(self._round_trip(there))

        return {
            octets: self._agreed(median(several)) for octets, several in found.items()
        }

    def _round_trip(self, data: Any) -> float:
        start = time.perf_counter()
        if self._leads:
            self._comm.Send(data, self._other, _TAG)
            self._comm.Recv(self._nothing, self._other, _TAG)
        else:
            self._comm.Recv(data, self._other, _TAG)
            self._comm.Send(self._nothing, self._other, _TAG)

        return time.perf_counter() - start

    def broadcasts(self, quick: bool) -> float:
        """Return seconds for an octet there and back by two broadcasts, as collectives send it."""
        octet = np.zeros(1, np.uint8)

        def once() -> float:
            start = time.perf_counter()
            self._comm.Bcast(octet, 0)
            self._comm.Bcast(octet, 1)

            return time.perf_counter() - start

        with _decided(self._comm, "bcast", Rule("flat")):
            return self._agreed(_times(once, self._agreed(once()), quick))

    def saturated(self, quick: bool) -> float:
        """Return g(0), by longer and longer rows of messages, until their answer hardly counts."""
        count, last = 16, 0.0
        while True:
            start = time.perf_counter()
            for _ in range(count):
                if self._leads:
                    self._comm.Send(self._nothing, self._other, _TAG)
                else:
                    self._comm.Recv(self._nothing, self._other, _TAG)

            # One answer to the whole row: before it, the receiver is not done.
            (self._comm.Recv if self._leads else self._comm.Send)(
                self._nothing, self._other, _TAG
            )

            each = self._agreed((time.perf_counter() - start) / count)
            if count >= (256 if quick else 2048) or (
                last and abs(each - last) < 0.02 * last
            ):
                return each

            count, last = 2 * count, each

    def overheads(self, octets: int, trip: float, quick: bool) -> tuple[float, float]:
        """Return o_s and o_r of rank 0: its time in Send, and in Recv of a message there."""

        data = np.zeros(octets, np.uint8)
        receiving = []

        def once() -> float:
            if not self._leads:
                self._comm.Recv(data, self._other, _TAG)
                self._comm.Send(data, self._other, _TAG)
                return 0.0

            start = time.perf_counter()
            self._comm.Send(data, self._other, _TAG)

            sent = time.perf_counter()
            # Spinning, not sleeping: the time to wake up would be measured, too.
            while time.perf_counter() - sent < _WAIT * trip:
                pass

            begun = time.perf_counter()
            self._comm.Recv(data, self._other, _TAG)
            receiving.append(time.perf_counter() - begun)

            return sent - start

        sending = _times(once, (2 + _WAIT) * trip, quick)

        return self._agreed(sending), self._agreed(
            median(receiving) if receiving else 0.0
        )

    def parameters(self, combine: float, quick: bool) -> Parameters:
        saturated = self.saturated(quick)
        trips = {
            m: (trip, *self.overheads(m, trip, quick))
            for m, trip in self.round_trips(quick).items()
        }
        return derive(saturated, trips, combine, self.broadcasts(quick))


def _combining() -> float:
    """Return seconds to read, add and write an octet of float64 in wire form."""

    there = np.ones(1 << 16, ">f8")
    mine = np.ones(1 << 16)

    def once() -> float:
        start = time.perf_counter()
        np.add(mine, there.astype("d"), out=mine)
        mine.astype(">f8")

        return time.perf_counter() - start

    # Not counted: it touches the memory for the first time.
    once()

    return _times(once, 1e-3, False) / there.nbytes


def _pairs(n: int) -> list[tuple[int, int]]:
    """Return the pairs of clients in a star and in a chain, enough for a typical value."""
    return sorted({(0, i) for i in range(1, n)} | {(i, i + 1) for i in range(n - 1)})


def _all_pairs(comm: Any, quick: bool) -> list[dict[str, Any]]:
    combine = comm.bcast(_combining() if comm.rank == 0 else None, 0)

    found = []
    # One pair at a time: others would take part of the link, and of the processor.
    for first, second in _pairs(comm.size):
        value = None

        two = comm.Split(
            0 if comm.rank in (first, second) else MPI.UNDEFINED, comm.rank
        )
        if two != MPI.COMM_NULL:
            value = _Pair(two).parameters(combine, quick).to_value()
            two.Free()

        found.append({"pair": [first, second], "parameters": comm.bcast(value, first)})

    return found


class _Operation:
    """One operation of one size, timed by rank 0, its root."""

    def __init__(self, comm: Any, operation: str, octets: int) -> None:
        self._comm, self._operation = comm, operation
        numbers = octets // 8
        self._mine = np.zeros(numbers)
        self._result = np.zeros(numbers)
        self._gathered = np.zeros(numbers * comm.size)
        self._all = self._gathered if comm.rank == 0 else None
        self._nothing = np.zeros(0, np.uint8)

    def _run(self) -> None:
        match self._operation:
            case "allgather":
                self._comm.Allgather(self._mine, self._gathered)
            case "barrier":
                self._comm.Barrier()
            case "bcast":
                self._comm.Bcast(self._mine, 0)
            case "scatter":
                self._comm.Scatter(self._all, self._mine, 0)
            case "reduce":
                self._comm.Reduce(self._mine, self._result, root=0)
            case _:
                self._comm.Allreduce(self._mine, self._result)

    def _all_to_root(self) -> None:
        if self._comm.rank == 0:
            for other in range(1, self._comm.size):
                self._comm.Recv(self._nothing, other, _TAG)
        else:
            self._comm.Send(self._nothing, 0, _TAG)

    def _root_to_all(self) -> None:
        if self._comm.rank == 0:
            for other in range(1, self._comm.size):
                self._comm.Send(self._nothing, other, _TAG)
        else:
            self._comm.Recv(self._nothing, 0, _TAG)

    def seconds(self, rule: Rule, one_way: float, quick: bool) -> float:
        """Return seconds from a common start until all have their results, by rank 0's clock.

        Args:
            rule: the algorithm.
            one_way: seconds of a message, to be subtracted for each one that only tells ranks of
                the start (before a reduction) or rank 0 of the end (after all but Reduce).
            quick: fewer repetitions.
        """

        before = self._operation in ("reduce", "allreduce")
        after = self._operation != "reduce"

        def once() -> float:
            self._all_to_root()

            start = time.perf_counter()
            # Before a reduction all wait for the root, which reads the clock; else a process
            # could be through before it starts.
            if before:
                self._root_to_all()

            self._run()
            if after:
                self._all_to_root()

            return max(time.perf_counter() - start - (before + after) * one_way, 0.0)

        with _decided(self._comm, self._operation, rule):
            once()
            return _times(once, self._comm.bcast(once(), 0), quick)


def _operations(comm: Any, network: Parameters, quick: bool) -> list[dict[str, Any]]:
    one_way = network.latency + network.gap(0)

    found = []
    for operation, algorithms in ALGORITHMS.items():
        for octets in _OPERATION_SIZES[:: 2 if quick else 1]:
            timed = _Operation(comm, operation, octets)
            for algorithm in algorithms:
                if algorithm == SPECIFICATION:
                    continue

                rule = best(network, operation, comm.size, octets, algorithm)
                seconds = timed.seconds(rule, one_way, quick)
                found.append(
                    {
                        "operation": operation,
                        "octets": octets,
                        "algorithm": algorithm,
                        "segment": rule.segment,
                        "seconds": seconds,
                    }
                )

    return found


def main(argv: list[str]) -> None:
    """Measure; every proc of the job calls this."""

    path, *rest = argv
    quick = "--quick" in rest
    world = MPI.COMM_WORLD
    client = world.Get_attr(MPI.IMPI_CLIENT_COLOR)
    clients = world.allgather(client)

    # The lowest rank of each client, which is its master (IMPI 4.2).
    masters = world.Split(
        0 if clients.index(client) == world.rank else MPI.UNDEFINED, world.rank
    )
    if masters != MPI.COMM_NULL:
        pairs = _all_pairs(masters, quick)
        network = typical([Parameters.of_value(pair["parameters"]) for pair in pairs])

        measured = _operations(masters, network, quick)
        if masters.rank == 0:
            value = {
                "format": MEASUREMENT,
                "clients": masters.size,
                "pairs": pairs,
                "measured": measured,
            }
            Path(path).write_text(json.dumps(value), encoding="utf-8")

        masters.Free()

    world.Barrier()


if __name__ == "__main__":
    main(sys.argv[1:])
