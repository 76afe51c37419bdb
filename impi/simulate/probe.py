"""A program for ``impirun``: what messages and collectives take in a real job; rank 0 prints it as one line of JSON.

Run by :mod:`impi.simulate.measure`. Everything is timed while all processes are awake, and the lowest tenth of times
counts: sleeping, waking, and what else the machine does is not in the model.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import impi.MPI

# Its names come from many modules, so that no checker knows them.
MPI: Any = impi.MPI

_WARM = 20
_LARGE = 1 << 16
_BATCH = 3


def _low(times: Sequence[float]) -> float:
    """The value that a tenth of ``times`` is below; 0 of none."""
    return sorted(times)[len(times) // 10] if times else 0.0


def _one_way(comm: Any, peer: int, size: int, times: int) -> float:
    """Half of a round trip of rank 0 with ``peer``."""
    rank, data = comm.Get_rank(), np.zeros(size, "u1")
    taken = []
    comm.Barrier()
    for _ in range(_WARM + times):
        start = time.monotonic()
        if rank == 0:
            comm.Send(data, peer)
            comm.Recv(data, peer)
            taken.append((time.monotonic() - start) / 2)
        elif rank == peer:
            comm.Recv(data, 0)
            comm.Send(data, 0)
    return _low(taken[_WARM:])


def _overheads(comm: Any, peer: int, size: int, times: int) -> tuple[float, float]:
    """o_s: how long a Send takes. o_r: how long a Recv does whose message is there (Kielmann's way)."""
    rank, data = comm.Get_rank(), np.zeros(size, "u1")
    taken = []
    for _ in range(_WARM + times):
        comm.Barrier()
        if rank == 0:
            start = time.monotonic()
            comm.Send(data, peer)
            taken.append(time.monotonic() - start)
        elif rank == peer:
            time.sleep(0.002)
            start = time.monotonic()
            comm.Recv(data, 0)
            taken.append(time.monotonic() - start)
    mine = _low(taken[_WARM:])
    everybody = comm.allgather(mine)
    return everybody[0], everybody[peer]


def _each(comm: Any, calls: Sequence[Callable[[], Any]], times: int) -> float:
    """What one of ``calls`` takes, one behind the other, as in the benchmarks of MPI."""
    taken = []
    comm.Barrier()
    for _ in range(times):
        start = time.monotonic()
        for _ in range(_BATCH):
            for call in calls:
                call()
        taken.append((time.monotonic() - start) / (_BATCH * len(calls)))
    return float(comm.allreduce(_low(taken), MPI.MAX))


def main() -> None:
    """Measure."""
    times, names, sizes = int(sys.argv[1]), sys.argv[2].split(","), [int(s) for s in sys.argv[3].split(",")]
    comm = MPI.COMM_WORLD
    clients = comm.allgather(comm.Get_attr(MPI.IMPI_CLIENT_COLOR))
    result: dict[str, Any] = {}
    peers = {"wide": [r for r, c in enumerate(clients) if c != clients[0]], "local": [r for r, c in enumerate(clients)]}
    peers["local"] = [r for r in peers["local"] if r and r not in peers["wide"]]
    for tier, ranks in peers.items():
        if ranks:
            small, large = (_one_way(comm, ranks[0], size, times) for size in (8, _LARGE))
            send, receive = _overheads(comm, ranks[0], 8, times)
            result[tier] = {"small": small, "large": large, "send": send, "receive": receive, "octets": _LARGE - 8}
    rows = []
    for name in names:
        for size in sizes[:1] if name == "barrier" else sizes:
            data, into = np.zeros(max(1, size // 8)), np.zeros(max(1, size // 8))
            # A root does not wait for the others; two in turn wait for each other.
            roots = (0, comm.Get_size() - 1)
            calls: dict[str, list[Callable[[], Any]]] = {
                "barrier": [comm.Barrier],
                "bcast": [partial(comm.Bcast, data, root) for root in roots],
                "allreduce": [partial(comm.Allreduce, data, into)],
            }
            rows.append({"name": name, "size": data.nbytes, "time": _each(comm, calls[name], times)})
    result["rows"] = rows
    if comm.Get_rank() == 0:
        print("measured " + json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
