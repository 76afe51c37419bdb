"""The collectives of the OSU micro-benchmarks: osu_barrier, or with ``--overlap`` osu_ibarrier.

A call is timed on every rank, with a barrier between two calls. The results are the average over
the ranks in us, and the least and the largest average of a rank. Overlap is the percentage of a
non-blocking call's time that is hidden by a computation as long as the call alone. With ``--local
N`` the calls run on a communicator of the first N ranks; others wait at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from mpi4py import MPI
from osucommon import arguments, pin, tell  # type: ignore[import-not-found]
from pointtopoint import LARGE  # type: ignore[import-not-found]

_NAMES = (
    *(
        "Allgather",
        "Allgatherv",
        "Allreduce",
        "Alltoall",
        "Alltoallv",
        "Alltoallw",
        "Barrier",
        "Bcast",
        "Exscan",
    ),
    *(
        "Gather",
        "Gatherv",
        "Reduce",
        "Reduce_scatter",
        "Reduce_scatter_block",
        "Scan",
        "Scatter",
        "Scatterv",
    ),
)


def operands(name: str, comm: MPI.Comm, size: int) -> tuple[Any, ...]:
    """Return arguments of a call with ``size`` octets of each rank or pair; root is rank 0.

    They are numpy arrays of float64, as in ``comm.Allreduce(a, b)``.
    """

    procs, root = comm.Get_size(), comm.Get_rank() == 0
    # Every argument is made before the clock runs, at all ranks alike; a rank
    # that needs one less gets None.
    count = max(size // 8, 1)
    one, other = np.ones(count), np.zeros(count)
    all_of, into = np.ones(count * procs), np.zeros(count * procs)
    counts = [count] * procs
    displacements = [count * rank for rank in range(procs)]

    def vector(array: Any) -> Any:
        return (
            [array, counts, displacements, MPI.DOUBLE] if name.endswith("v") else array
        )

    if name in {"Allgather", "Allgatherv"}:
        return one, vector(into)

    if name in {"Alltoall", "Alltoallv"}:
        return vector(all_of), vector(into)

    if name == "Alltoallw":
        types = [MPI.DOUBLE] * procs
        return [all_of, counts, displacements, types], [
            into,
            counts,
            displacements,
            types,
        ]

    if name in {"Gather", "Gatherv"}:
        return one, vector(into) if root else None, 0

    if name in {"Scatter", "Scatterv"}:
        return vector(all_of) if root else None, other, 0

    return {
        "Allreduce": (one, other),
        "Exscan": (one, other),
        "Reduce": (one, other if root else None),
        "Reduce_scatter": (all_of, other, counts),
        "Reduce_scatter_block": (all_of, other),
        "Scan": (one, other),
        "Bcast": (one,),
        "Barrier": (),
    }[name]


def timed(comm: MPI.Comm, call: Callable[[], object], size: int, options: Any) -> float:
    """Return a call's average time on this rank in us; long messages get a tenth of the calls."""

    few = 10 if size > LARGE else 1
    iterations, skip = max(options.iterations // few, 1), max(options.skip // few, 1)

    spent = 0.0
    for iteration in range(skip + iterations):
        begin = time.perf_counter()

        call()
        if iteration >= skip:
            spent += time.perf_counter() - begin

        comm.Barrier()

    return float(spent / iterations * 1e6)


def _overlap(
    comm: MPI.Comm, start: Callable[[], MPI.Request], size: int, options: Any
) -> dict[str, float]:
    pure = timed(comm, lambda: start().Wait(), size, options)
    # As in OSU's program, all ranks compute as long as the slowest one communicates.
    longest = comm.allreduce(pure, MPI.MAX)

    def both() -> None:
        request = start()

        until = time.perf_counter() + longest / 1e6
        while time.perf_counter() < until:
            pass

        request.Wait()

    overall = timed(comm, both, size, options)

    return {
        "time": overall,
        "overlap": max(0.0, 100 - (overall - longest) / longest * 100),
    }


def reduced(comm: MPI.Comm, value: float) -> tuple[float, float, float]:
    """Return average, least and largest value of the ranks."""
    low, high = comm.allreduce(value, MPI.MIN), comm.allreduce(value, MPI.MAX)
    return comm.allreduce(value, MPI.SUM) / comm.Get_size(), low, high


def _measure(comm: MPI.Comm, options: Any) -> dict[str, float]:
    results = {}
    for name in options.only or _NAMES:
        for size in options.sizes if name != "Barrier" else [0]:
            given = operands(name, comm, size)
            if options.overlap:
                method = getattr(comm, "I" + name.lower())
                for what, value in _overlap(
                    comm, partial(method, *given), size, options
                ).items():
                    results[f"I{name.lower()}/{size}/{what}"] = reduced(comm, value)[0]

                continue

            method = getattr(comm, name)
            average, low, high = reduced(
                comm, timed(comm, partial(method, *given), size, options)
            )
            key = f"{name}/{size}"
            results |= {f"{key}": average, f"{key}/min": low, f"{key}/max": high}

    return results


def main() -> None:
    """Measure, and print the results at rank 0."""

    parser = arguments("Measure collectives.")
    parser.add_argument(
        "--only",
        type=lambda text: text.split(","),
        metavar="LIST",
        help="Bcast,Allreduce,...",
    )
    parser.add_argument(
        "--overlap",
        action="store_true",
        help="non-blocking forms, with a computation beside",
    )
    parser.add_argument(
        "--local",
        type=int,
        default=0,
        metavar="N",
        help="on a communicator of the first N ranks",
    )

    options = parser.parse_args()
    if unknown := set(options.only or ()) - set(_NAMES):
        parser.error(f"there is no {min(unknown)}; the choices are {', '.join(_NAMES)}")

    world = MPI.COMM_WORLD
    pin(options.pin)

    comm: MPI.Comm = world
    if options.local:
        comm = world.Split(
            0 if world.Get_rank() < options.local else 1, world.Get_rank()
        )

    # With --local the other ranks have a communicator of their own, and do not use it.
    inside = not options.local or world.Get_rank() < options.local

    results = _measure(comm, options) if inside else {}
    if world.Get_rank() == 0:
        title = f"collectives, {comm.Get_size()} ranks"
        tell(
            title,
            "Latency (us), Overlap (%)" if options.overlap else "Latency (us)",
            results,
            as_json=options.json,
        )

    world.Barrier()


if __name__ == "__main__":
    main()
