"""Tokens that go around the ring of processes.

    mpiexec -n 4 python ring.py [LAPS [LENGTH]]

Every process starts a token of LENGTH numbers. In each step it sends a token to its right neighbour
and receives one from its left neighbour. In the end all tokens have gone around LAPS times.
"""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD


def stop(sentence: str) -> None:
    """Print an error once and end all processes."""
    if comm.rank == 0:
        print(f"ring.py: {sentence}", file=sys.stderr, flush=True)
    comm.Barrier()
    sys.exit(2)


def read_arguments() -> tuple[int, int]:
    given = sys.argv[1:]
    if len(given) > 2 or not all(text.isdecimal() and int(text) > 0 for text in given):
        stop(
            f"give a positive number of laps and a positive length, not {' '.join(given)!r}."
        )
    laps, length = (*map(int, given), *(20, 10000)[len(given) :])
    return laps, length


def main() -> None:
    laps, length = read_arguments()
    right = (comm.rank + 1) % comm.size
    left = (comm.rank - 1) % comm.size

    # A token: the rank that it comes from, the number of processes that it has seen, and its load.
    token = np.zeros(2 + length)
    token[0] = comm.rank
    token[2:] = np.sqrt(np.arange(length))
    other = np.empty_like(token)
    for _ in range(laps * comm.size):
        comm.Sendrecv(
            token, dest=right, sendtag=7, recvbuf=other, source=left, recvtag=7
        )
        token, other = other, token
        token[1] += 1

    whole = np.array_equal(token[2:], np.sqrt(np.arange(length)))
    home = whole and token[0] == comm.rank and token[1] == laps * comm.size
    everybody = comm.allreduce(bool(home), op=MPI.LAND)
    if comm.rank == 0:
        if everybody:
            print(
                f"every token came home after {laps} laps, checksum {token[2:].sum():.6f}"
            )
        else:
            print(f"a token was lost or spoiled within {laps} laps")
    if not everybody:
        sys.exit(1)


if __name__ == "__main__":
    main()
