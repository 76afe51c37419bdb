"""The heat equation on a square plate with cold edges, explicit in time.

    mpiexec -n 4 python heat2d.py [POINTS [STEPS]]

The plate of POINTS x POINTS inner points is cut into bands of rows, one for each process. Before
each step neighbours exchange their outermost rows (the halo). After each step all processes agree
on the largest change.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
DIFFUSION = 0.2  # alpha dt / dx^2; stable below 0.25
UP, DOWN = 1, 2  # tags: the direction in which a row travels


def stop(sentence: str) -> None:
    """Print an error once and end all processes."""
    if comm.rank == 0:
        print(f"heat2d.py: {sentence}", file=sys.stderr, flush=True)
    comm.Barrier()
    sys.exit(2)


def read_arguments() -> tuple[int, int]:
    given = sys.argv[1:]
    if len(given) > 2 or not all(text.isdecimal() and int(text) > 0 for text in given):
        stop(f"give a positive number of points and of steps, not {' '.join(given)!r}.")
    points, steps = (*map(int, given), *(120, 200)[len(given) :])
    if points < comm.size:
        stop(
            f"{points} x {points} points are too few for {comm.size} processes; every process needs a row."
        )
    return points, steps


def first_row(rank: int, points: int) -> int:
    """Return the first row of a rank's band; bands differ by one row at most."""
    return rank * points // comm.size


def warm_plate(points: int) -> np.ndarray:
    """Return this process's band at time 0: a hot spot off the middle, and a halo all around."""
    begin, end = first_row(comm.rank, points), first_row(comm.rank + 1, points)
    y = np.arange(begin, end)[:, None] / points
    x = np.arange(points)[None, :] / points
    plate = np.zeros((end - begin + 2, points + 2))
    plate[1:-1, 1:-1] = 100.0 * np.exp(-40.0 * ((x - 0.4) ** 2 + (y - 0.6) ** 2))
    return plate


def exchange_halo(plate: np.ndarray) -> None:
    above = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
    below = comm.rank + 1 if comm.rank < comm.size - 1 else MPI.PROC_NULL
    requests = [
        comm.Irecv(plate[0], source=above, tag=DOWN),
        comm.Irecv(plate[-1], source=below, tag=UP),
        comm.Isend(plate[1], dest=above, tag=UP),
        comm.Isend(plate[-2], dest=below, tag=DOWN),
    ]
    MPI.Request.Waitall(requests)


def step(plate: np.ndarray) -> float:
    """Do one step in time; return the largest change of a point in this band."""
    inner = plate[1:-1, 1:-1]
    around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
    change = DIFFUSION * (around - 4.0 * inner)
    inner += change
    return float(np.abs(change).max())


def main() -> None:
    points, steps = read_arguments()
    plate = warm_plate(points)
    residual = np.zeros(1)
    for _ in range(steps):
        exchange_halo(plate)
        comm.Allreduce(np.array([step(plate)]), residual, op=MPI.MAX)

    heat = np.zeros(1)
    comm.Reduce(np.array([plate[1:-1, 1:-1].sum()]), heat, op=MPI.SUM, root=0)
    if comm.rank == 0:
        checksum = heat[0] / points**2
        print(
            f"{points} x {points} points after {steps} steps: residual {residual[0]:.6f}, checksum {checksum:.6f}"
        )


if __name__ == "__main__":
    main()
