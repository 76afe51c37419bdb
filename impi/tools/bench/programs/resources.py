"""The costs of a mostly idle process: start, memory, and processor time while it waits in Recv.

``startup`` runs one barrier and ends. ``memory`` is a process's memory in MiB after a barrier and a
message of 1 MiB to its neighbour, averaged over the ranks. ``idle`` is the processor time of the
last rank in a Recv from rank 0 that lasts twice ``--seconds``, in percent of a core, and the delay
from the Send to the return of the Recv, in us by one machine's clock. Its ``job`` is the processor
time of all processes of the job in the second half, in percent of a core: ranks, starters,
launchers and server.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from mpi4py import MPI
from osucommon import arguments, pin, tell  # type: ignore[import-not-found]

_MESSAGE = 1 << 20
_ROOT = "IMPI_BENCH_ROOT"  # as in impi.tools.bench.programs


def _startup(_: Any) -> dict[str, float]:
    MPI.COMM_WORLD.Barrier()
    return {}


def _memory(_: Any) -> dict[str, float]:
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    world.Barrier()
    out, into = bytearray(_MESSAGE), bytearray(_MESSAGE)
    world.Sendrecv(
        [out, MPI.BYTE], (rank + 1) % size, 0, [into, MPI.BYTE], (rank - 1) % size, 0
    )

    results = {}
    for line in Path("/proc/self/smaps_rollup").read_text("ascii").splitlines():
        name, _, rest = line.partition(":")
        if name in {"Rss", "Pss"}:
            results[name.lower()] = (
                world.allreduce(int(rest.split()[0]) / 1024, MPI.SUM) / size
            )

    return results


def _spent() -> float:
    """Return the processor time, in seconds, of all processes that the benchmark has started."""

    root = int(os.environ.get(_ROOT, "0"))

    parents, ticks = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (
                    (entry / "stat")
                    .read_text("utf-8", "replace")
                    .rpartition(")")[2]
                    .split()
                )
            except OSError:
                continue

            parents[int(entry.name)] = int(fields[1])
            # Behind the name: user and system time of the process
            # itself, without its ended children.
            ticks[int(entry.name)] = sum(map(int, fields[11:13]))

    found = 0
    for process, of_process in ticks.items():
        above = parents[process]
        while above not in {0, root}:
            above = parents.get(above, 0)

        found += of_process if above == root else 0

    return found / os.sysconf("SC_CLK_TCK")


def _idle(options: Any) -> dict[str, float]:
    world = MPI.COMM_WORLD
    rank, last = world.Get_rank(), world.Get_size() - 1
    word = bytearray(8)
    world.Barrier()

    share = late = job = 0.0
    if rank == 0:
        # A wait looks less and less often, so its first seconds are not those of an idle job.
        time.sleep(options.seconds)
        before, wall = _spent(), time.perf_counter()
        time.sleep(options.seconds)
        job = (_spent() - before) / (time.perf_counter() - wall) * 100
        # All processes of a machine share this clock, so the message itself
        # carries the time of its sending.
        word[:] = time.clock_gettime_ns(time.CLOCK_MONOTONIC).to_bytes(8, "little")
        world.Send([word, MPI.BYTE], last, 1)
    elif rank == last:
        cpu, wall = time.process_time(), time.perf_counter()
        world.Recv([word, MPI.BYTE], 0, 1)
        late = (
            time.clock_gettime_ns(time.CLOCK_MONOTONIC) - int.from_bytes(word, "little")
        ) / 1e3
        share = (time.process_time() - cpu) / (time.perf_counter() - wall) * 100

    return {
        "idle": world.bcast(share, last),
        "wakeup": world.bcast(late, last),
        "job": world.bcast(job, 0),
    }


_MEASURES = {
    "startup": (_startup, ""),
    "memory": (_memory, "MiB"),
    "idle": (_idle, "% and us"),
}


def main() -> None:
    """Measure, and print the results at rank 0."""

    parser = arguments("Measure what a process costs.")
    parser.add_argument("measure", choices=tuple(_MEASURES))
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="how long 'idle' waits"
    )
    options = parser.parse_args()
    pin(options.pin)
    function, unit = _MEASURES[options.measure]

    results = function(options)
    if MPI.COMM_WORLD.Get_rank() == 0:
        tell(options.measure, unit, results, as_json=options.json)


main()
