"""Heat on a plate, where threads exchange halos as endpoints: each thread is a rank.

    impirun ... halo.py [THREADS [POINTS [STEPS]]]

The plate of POINTS x POINTS is cut into strips of rows. First each process has one strip, and its
rank in MPI_COMM_WORLD exchanges halos. Then each process has THREADS strips and a thread for each:
`Create_endpoints` gives each thread a rank of its own. One function computes a strip in both cases:
it knows only its communicator. You see both times, and the sum of the plate, which is the same.
"""

import sys
import threading
import time

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
TO_NEXT, TO_LAST = 1, 2  # tags


def strip(comm: MPI.Comm, points: int, steps: int) -> float:
    """Compute the strip of this rank; return the sum of the whole plate."""
    rank, size = comm.Get_rank(), comm.Get_size()
    first, end = rank * points // size, (rank + 1) * points // size
    at = np.arange(points) / points
    plate = np.zeros((end - first + 2, points + 2))
    plate[1:-1, 1:-1] = 100.0 * np.exp(
        -40.0 * ((at[None, :] - 0.4) ** 2 + (at[first:end, None] - 0.6) ** 2)
    )
    last = rank - 1 if rank > 0 else MPI.PROC_NULL
    following = rank + 1 if rank < size - 1 else MPI.PROC_NULL
    for _ in range(steps):
        comm.Sendrecv(plate[-2], following, TO_NEXT, plate[0], last, TO_NEXT)
        comm.Sendrecv(plate[1], last, TO_LAST, plate[-1], following, TO_LAST)
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        plate[1:-1, 1:-1] += 0.2 * (around - 4.0 * plate[1:-1, 1:-1])
    total = np.zeros(1)
    comm.Allreduce(plate[1:-1, 1:-1].sum(keepdims=True).reshape(1), total)
    return float(total[0])


def with_processes(points: int, steps: int) -> float:
    return strip(world, points, steps)


def with_endpoints(points: int, steps: int, endpoints: list) -> float:
    totals: dict[int, float] = {}

    def run(ep: MPI.Comm) -> None:
        totals[ep.Get_rank()] = strip(ep, points, steps)

    threads = [threading.Thread(target=run, args=(ep,)) for ep in endpoints]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return next(iter(totals.values()))


def stop(sentence: str) -> None:
    """Print an error once and end all processes."""
    if world.rank == 0:
        print(f"halo.py: {sentence}", file=sys.stderr, flush=True)
    world.Barrier()
    sys.exit(2)


def numbers() -> tuple[int, int, int]:
    given = [int(text) if text.isdecimal() else 0 for text in sys.argv[1:]]
    threads, points, steps = [*given, *(2, 1000, 100)[len(given) :]]
    if len(given) > 3 or min(threads, points, steps) < 1:
        stop(
            f"give positive numbers of threads, points and steps, not '{' '.join(sys.argv[1:])}'."
        )
    if points < threads * world.size:
        stop(
            f"{points} rows are too few for {threads * world.size} ranks; every rank needs one."
        )
    return threads, points, steps


def main() -> None:
    threads, points, steps = numbers()
    endpoints = world.Create_endpoints(threads)
    runs = {
        f"one process a rank, {world.size} ranks": lambda: with_processes(
            points, steps
        ),
        f"one thread a rank, {threads * world.size} ranks": lambda: with_endpoints(
            points, steps, endpoints
        ),
    }
    for name, run in runs.items():
        world.Barrier()
        begin = time.perf_counter()
        total = run()
        world.Barrier()
        took = time.perf_counter() - begin
        if world.rank == 0:
            print(
                f"{name}: sum {total:.6f}: {took:.2f} s, {took / steps * 1e6:.0f} us a step",
                flush=True,
            )


if __name__ == "__main__":
    main()
