"""The collectives of the OSU micro-benchmarks: osu_barrier, osu_ibarrier by ``--overlap``; scans.

A call is timed on every rank, with a barrier between two calls. The results are the average over
the ranks in us, and the least and the largest of the ranks' averages. Overlap is the share of a
non-blocking call's time hidden by a computation as long as the call alone, in percent. With
``--local N`` all runs on a communicator of the first N ranks; others wait at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI
from osucommon import arguments, pin, tell  # type: ignore[import-not-found]

_NAMES = (
    *("Allgather", "Allgatherv", "Allreduce", "Alltoall", "Alltoallv", "Alltoallw", "Barrier", "Bcast", "Exscan"),
    *("Gather", "Gatherv", "Reduce", "Reduce_scatter", "Reduce_scatter_block", "Scan", "Scatter", "Scatterv"),
)
_OF_NUMBERS = ("Allreduce", "Exscan", "Reduce", "Reduce_scatter", "Reduce_scatter_block", "Scan")


def _operands(name: str, comm: MPI.Comm, size: int) -> tuple[Any, ...]:
    """Return arguments of a call with ``size`` octets of each rank or pair; root is rank 0."""
    procs, root = comm.Get_size(), comm.Get_rank() == 0
    kind, datatype = (np.float64, MPI.DOUBLE) if name in _OF_NUMBERS else (np.uint8, MPI.BYTE)
    count = max(size // np.dtype(kind).itemsize, 1)
    one, other = [np.ones(count, kind), datatype], [np.zeros(count, kind), datatype]
    all_of, into = np.ones(count * procs, kind), np.zeros(count * procs, kind)
    counts = [count] * procs
    displacements = [count * rank for rank in range(procs)]

    def vector(array: Any) -> list[Any]:
        return [array, counts, displacements, datatype] if name.endswith("v") else [array, datatype]

    if name in {"Allgather", "Allgatherv"}:
        return one, vector(into)
    if name in {"Alltoall", "Alltoallv"}:
        return vector(all_of), vector(into)
    if name == "Alltoallw":
        types = [datatype] * procs
        return [all_of, counts, displacements, types], [into, counts, displacements, types]
    if name in {"Gather", "Gatherv"}:
        return one, vector(into) if root else None, 0
    if name in {"Scatter", "Scatterv"}:
        return vector(all_of) if root else None, other, 0
    return {
        "Allreduce": (one, other, MPI.SUM),
        "Exscan": (one, other, MPI.SUM),
        "Reduce": (one, other if root else None, MPI.SUM, 0),
        "Reduce_scatter": ([all_of, datatype], other, counts, MPI.SUM),
        "Reduce_scatter_block": ([all_of, datatype], other, MPI.SUM),
        "Scan": (one, other, MPI.SUM),
        "Bcast": (one, 0),
        "Barrier": (),
    }[name]


def _timed(comm: MPI.Comm, call: Callable[[], object], options: Any) -> float:
    """Average of a call on this rank, in us."""
    spent = 0.0
    for iteration in range(options.skip + options.iterations):
        begin = time.perf_counter()
        call()
        if iteration >= options.skip:
            spent += time.perf_counter() - begin
        comm.Barrier()
    return float(spent / options.iterations * 1e6)


def _overlap(comm: MPI.Comm, start: Callable[[], MPI.Request], options: Any) -> dict[str, float]:
    pure = _timed(comm, lambda: start().Wait(), options)
    # All ranks compute as long as the slowest communicates, as OSU's do.
    longest = comm.allreduce(pure, MPI.MAX)

    def both() -> None:
        request = start()
        until = time.perf_counter() + longest / 1e6
        while time.perf_counter() < until:
            pass
        request.Wait()

    overall = _timed(comm, both, options)
    return {"time": overall, "overlap": max(0.0, 100 - (overall - longest) / longest * 100)}


def _reduced(comm: MPI.Comm, value: float) -> tuple[float, float, float]:
    low, high = comm.allreduce(value, MPI.MIN), comm.allreduce(value, MPI.MAX)
    return comm.allreduce(value, MPI.SUM) / comm.Get_size(), low, high


def _measure(comm: MPI.Comm, options: Any) -> dict[str, float]:
    results = {}
    for name in options.only or _NAMES:
        for size in options.sizes if name != "Barrier" else [0]:
            operands = _operands(name, comm, size)
            if options.overlap:
                method = getattr(comm, "I" + name.lower())
                for what, value in _overlap(comm, partial(method, *operands), options).items():
                    results[f"I{name.lower()}/{size}/{what}"] = _reduced(comm, value)[0]
                continue
            method = getattr(comm, name)
            average, low, high = _reduced(comm, _timed(comm, partial(method, *operands), options))
            key = f"{name}/{size}"
            results |= {f"{key}": average, f"{key}/min": low, f"{key}/max": high}
    return results


def main() -> None:
    """Measure, and let rank 0 tell."""
    parser = arguments("Measure collectives.")
    parser.add_argument("--only", type=lambda text: text.split(","), metavar="LIST", help="Bcast,Allreduce,...")
    parser.add_argument("--overlap", action="store_true", help="non-blocking forms, with a computation beside")
    parser.add_argument("--local", type=int, default=0, metavar="N", help="on a communicator of the first N ranks")
    options = parser.parse_args()
    if unknown := set(options.only or ()) - set(_NAMES):
        parser.error(f"there is no {min(unknown)}; the choices are {', '.join(_NAMES)}")
    world = MPI.COMM_WORLD
    pin(options.pin)
    comm: MPI.Comm = world
    if options.local:
        comm = world.Split(0 if world.Get_rank() < options.local else 1, world.Get_rank())
    inside = not options.local or world.Get_rank() < options.local
    results = _measure(comm, options) if inside else {}
    if world.Get_rank() == 0:
        title = f"collectives, {comm.Get_size()} ranks"
        tell(title, "Latency (us), Overlap (%)" if options.overlap else "Latency (us)", results, as_json=options.json)
    world.Barrier()


main()
