"""Each rank starts a Python by multiprocessing, which imports this file anew, and with it MPI."""

import multiprocessing

from mpi4py import MPI

world = MPI.COMM_WORLD


def work(number: int) -> tuple[int, int, int]:
    return number * number, world.rank, world.size


if __name__ == "__main__":
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(1) as pool:
            answer = pool.apply_async(work, (world.rank,)).get(60)
        found = world.gather(answer)
        if world.rank == 0:
            print(method, found)
