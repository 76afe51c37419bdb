"""ezmpi: a pool of ranks maps a function."""

from ezmpi import MPIPool


def cube(n):
    return n**3


with MPIPool() as pool:
    print(pool.map(cube, list(range(20))))
