"""The Mandelbrot set, row by row: a master gives rows to free workers.

    mpiexec -n 4 python masterworker.py [ROWS]

Rows differ in their cost, so no worker gets a fixed share. Rank 0 keeps every other process busy
with one row at a time, and takes the results as they come. It computes only if it is alone.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
WORK, RESULT, END = 1, 2, 3  # tags
DEPTH = 100


def stop(sentence: str) -> None:
    """Print an error once and end all processes."""
    if comm.rank == 0:
        print(f"masterworker.py: {sentence}", file=sys.stderr, flush=True)
    comm.Barrier()
    sys.exit(2)


def read_rows() -> int:
    text = sys.argv[1] if len(sys.argv) > 1 else "120"
    if len(sys.argv) > 2 or not text.isdecimal() or int(text) == 0:
        stop(f"give one positive number of rows, not {' '.join(sys.argv[1:])!r}.")
    return int(text)


def iterate(y: float, columns: int) -> np.ndarray:
    """Return the steps that each point of the row at ``y`` survives; DEPTH means: in the set."""
    c = np.linspace(-2.0, 1.0, columns) + 1j * y
    z = np.zeros_like(c)
    survived = np.zeros(columns, dtype="i")
    alive = np.ones(columns, dtype=bool)
    for _ in range(DEPTH):
        z[alive] = z[alive] ** 2 + c[alive]
        alive &= z.real**2 + z.imag**2 <= 4.0
        survived[alive] += 1
    return survived


def task(row: int, rows: int) -> dict[str, float]:
    return {"row": row, "y": -1.0 + 2.0 * row / rows, "columns": 2 * rows}


def master(rows: int) -> np.ndarray:
    image = np.zeros((rows, 2 * rows), dtype="i")
    result = np.empty(1 + 2 * rows, dtype="i")  # the number of the row, then the row
    tasks = iter([task(row, rows) for row in range(rows)])
    busy = 0
    status = MPI.Status()
    for worker, work in zip(range(1, comm.size), tasks, strict=False):
        comm.send(work, dest=worker, tag=WORK)
        busy += 1
    while busy:
        comm.Recv(result, source=MPI.ANY_SOURCE, tag=RESULT, status=status)
        if status.Get_count(MPI.INT) != result.size:
            raise RuntimeError(f"rank {status.Get_source()} sent half a row")
        image[result[0]] = result[1:]
        work = next(tasks, None)
        if work is None:
            busy -= 1
        else:
            comm.send(work, dest=status.Get_source(), tag=WORK)
    for worker in range(1, comm.size):
        comm.send(None, dest=worker, tag=END)
    return image


def worker() -> None:
    status = MPI.Status()
    while True:
        work = comm.recv(source=0, tag=MPI.ANY_TAG, status=status)
        if status.Get_tag() == END:
            return
        row = iterate(work["y"], work["columns"])
        comm.Send(
            np.append(np.array([work["row"]], dtype="i"), row), dest=0, tag=RESULT
        )


def alone(rows: int) -> np.ndarray:
    tasks = [task(row, rows) for row in range(rows)]
    return np.array([iterate(work["y"], work["columns"]) for work in tasks])


def main() -> None:
    rows = read_rows()
    if comm.rank > 0:
        worker()
        return
    image = master(rows) if comm.size > 1 else alone(rows)
    inside = int((image == DEPTH).sum())
    print(
        f"{inside} of {image.size} points are in the set, {int(image.sum())} steps in all"
    )


if __name__ == "__main__":
    main()
