"""schwimmbad: a pool of ranks maps a function."""

import sys

from schwimmbad import MPIPool


def cube(n):
    return n**3


with MPIPool() as pool:
    if not pool.is_master():
        pool.wait()
        sys.exit(0)
    print(list(pool.map(cube, range(20))))
