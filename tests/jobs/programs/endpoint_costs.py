"""The costs of endpoints: ``endpoint_costs.py memory|latency [...]``; prints a line of figures.

``memory THREADS``: octets and descriptors of one more endpoint, if each process has THREADS.
``latency COUNT ENDPOINTS``: half the time of 8 octets there and back, between two processes, and
between the first endpoint of each.
"""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from pathlib import Path
from statistics import median
from typing import Any

from mpi4py import MPI

world: Any = MPI.COMM_WORLD
ROUNDS = 9


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


def memory(threads: int) -> None:
    for endpoint in world.Create_endpoints(1):
        endpoint.Barrier()  # what is loaded once
    kept = []

    def taken(number: int) -> tuple[int, int]:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0], descriptors()
        kept.append(world.Create_endpoints(number))
        # The first round hears the other proc's ATTACHes, the second one the answers to our own:
        # what counts is what stays, not what waits to be read.
        for _ in range(2):
            world.Barrier()
            world.Iprobe()

        gc.collect()
        found = (
            tracemalloc.get_traced_memory()[0] - before[0],
            descriptors() - before[1],
        )
        world.Barrier()  # nothing of the next ones has come yet
        return found

    tracemalloc.start()
    taken(1)
    first, _ = taken(threads)
    second, opened = taken(threads + 1)
    if world.rank == 0:
        print(
            f"{second - first} octets and {opened} descriptors, beside {threads} of {first} octets"
        )


def latency(count: int, number: int) -> None:
    processes = halves(world, count)  # first: endpoints change how all wait
    endpoint = world.Create_endpoints(number)[0]
    endpoints = halves(endpoint, count, number)
    if world.rank == 0:
        both = f"{processes:.1f} us between processes, {endpoints:.1f} us between endpoints"
        print(f"{both}: {endpoints / processes:.2f}")


def halves(comm: Any, count: int, apart: int = 1) -> float:
    return median(
        there_and_back(comm, count, apart) / count / 2 * 1e6 for _ in range(ROUNDS)
    )


def there_and_back(comm: Any, count: int, apart: int) -> float:
    place, other = bytearray(8), comm.Get_rank() == 0
    world.Barrier()
    begin = time.perf_counter()
    for _ in range(count):
        if other:
            comm.Send(place, apart)
            comm.Recv(place, apart)
        else:
            comm.Recv(place, 0)
            comm.Send(place, 0)
    return time.perf_counter() - begin


globals()[sys.argv[1]](*map(int, sys.argv[2:]))
