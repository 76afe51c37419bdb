"""The balanced grid of MPI_Dims_create (MPI 4.1, 8.5.2): dimensions close to each other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence


def balanced(n: int, ndims: int) -> list[int]:
    """Return ``ndims`` factors of ``n`` in descending order; neither number is less than 1.

    The difference of the first and the last is the least possible. Among several such grids it is
    the one with the largest last factor, then with the largest last but one and so on, as in MPICH.
    """

    primes = _primes(n)
    if ndims == 1:
        return [n]

    if ndims >= len(primes):  # no dimension needs two of them
        return primes[::-1] + [1] * (ndims - len(primes))

    divisors = _divisors(primes)
    # Factors ascend, and each is tried from the largest candidate downwards. A branch ends as soon
    # as it cannot beat the best difference.
    best: list[int] = []
    difference = n

    def search(chosen: list[int], rest: int) -> None:
        """Complete the factors in ascending order; large ones come first."""

        nonlocal best, difference

        count = ndims - len(chosen)
        if count == 1:
            # Only a smaller difference wins: larger first factors were tried
            # before, so a tie keeps them.
            if rest - chosen[0] < difference:
                best, difference = [*chosen, rest], rest - chosen[0]

            return

        for factor in _up_to_root(divisors, rest, count):
            # The first factor bounds all later ones from below, and with the
            # best difference from above.
            first, last = (chosen[0], chosen[-1]) if chosen else (factor, 1)
            # The largest factor is the root of the rest at least.
            if factor < last or (first + difference - 1) ** count < rest:
                return

            if rest % factor == 0:
                search([*chosen, factor], rest // factor)

    search([], n)

    return best[::-1]


def _up_to_root(divisors: Sequence[int], n: int, degree: int) -> Iterator[int]:
    """Return the divisors from the root of ``n`` downwards."""
    end = bisect_right(divisors, n, key=lambda divisor: divisor**degree)
    return (divisors[i] for i in range(end - 1, -1, -1))


def _primes(n: int) -> list[int]:
    """Return the prime factors in ascending order."""
    found, divisor = [], 2
    while n > 1:
        # The rest has no factor up to its root, so it is a prime itself.
        if divisor * divisor > n:
            divisor = n

        while n % divisor == 0:
            found.append(divisor)
            n //= divisor

        divisor += 1

    return found


def _divisors(primes: Sequence[int]) -> list[int]:
    """Return all products of some of the primes, each once, in ascending order."""
    found = {1}
    for prime in primes:
        found |= {divisor * prime for divisor in found}

    return sorted(found)
