"""Pi as the integral of 4 / (1 + x*x) from 0 to 1, by the midpoint rule.

    mpiexec -n 4 python pi.py [INTERVALS]

Rank 0 broadcasts the number of intervals. Each process sums its share of them, and rank 0 adds the
sums.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
BLOCK = 1 << 16  # intervals at a time, so that memory does not grow with their number


def stop(sentence: str) -> None:
    """Print an error once and end all processes."""
    if comm.rank == 0:
        print(f"pi.py: {sentence}", file=sys.stderr, flush=True)
    comm.Barrier()
    sys.exit(2)


def read_intervals() -> int:
    text = sys.argv[1] if len(sys.argv) > 1 else "1000000"
    if len(sys.argv) > 2 or not text.isdecimal() or int(text) == 0:
        stop(f"give one positive number of intervals, not {' '.join(sys.argv[1:])!r}.")
    return int(text)


def my_share(intervals: int) -> float:
    width = 1.0 / intervals
    total = 0.0
    for first in range(comm.rank * BLOCK, intervals, comm.size * BLOCK):
        x = (np.arange(first, min(first + BLOCK, intervals)) + 0.5) * width
        total += float(np.sum(4.0 / (1.0 + x * x)))
    return total * width


def main() -> None:
    intervals = comm.bcast(read_intervals(), root=0)
    mine = np.array([my_share(intervals)])
    pi = np.zeros(1)
    comm.Reduce(mine, pi, op=MPI.SUM, root=0)
    if comm.rank == 0:
        print(f"pi = {pi[0]:.12f} with {intervals} intervals")


if __name__ == "__main__":
    main()
