"""Endpoints: a ring of threads, each a rank of its own, a sum of all, and a merge of two halves."""

import threading
from array import array
from typing import Any

from begun import report  # type: ignore[import-not-found]
from mpi4py import MPI

number = report.plan["params"]["endpoints"]
found: dict[int, tuple[bytes, bytes, int, list[int]]] = {}


def turn(comm: MPI.Intracomm) -> None:
    """Send to the right, receive from the left, and add up, in a thread."""

    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    into, total = bytearray(80), array("i", [0])
    comm.Sendrecv(report.octets(f"endpoint/{comm.rank}", 80), right, 7, into, left, 7)
    comm.Allreduce(array("i", [comm.rank + 1]), total, MPI.SUM)
    found[comm.rank] = (
        bytes(into),
        report.octets(f"endpoint/{left}", 80),
        total[0],
        merged(comm),
    )


def merged(comm: MPI.Intracomm) -> list[int]:
    """Return the ranks in ``comm`` of odd endpoints and even ones, as a merge orders them."""
    odd = comm.rank % 2
    half = comm.Split(odd)
    assert isinstance(half, MPI.Intracomm)
    between = half.Create_intercomm(0, comm, 1 - odd, 9)
    whole = between.Merge(high=not odd)
    ranks: list[int] = whole.allgather(comm.rank)
    for each in (whole, between, half):
        each.Free()
    return ranks


world: Any = MPI.COMM_WORLD  # mpi4py has no endpoints
endpoints = world.Create_endpoints(number)
threads = [threading.Thread(target=turn, args=(each,)) for each in endpoints]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()

size = number * report.size
report.check("ranks", sorted(found), [number * report.rank + i for i in range(number)])
for came, expected, total, ranks in (found[each] for each in sorted(found)):
    report.check("octets from the left", came, expected)
    report.check("sum", total, size * (size + 1) // 2)
    report.check("merge", ranks, [*range(1, size, 2), *range(0, size, 2)])
world.Barrier()
for each in endpoints:
    each.Free()
report.done()
