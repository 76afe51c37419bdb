"""A piece of another length for every pair: Alltoallv and Alltoallw (IMPI 4.23)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI


def piece(of: int, to: int) -> bytes:
    """Return the piece of rank ``of`` for rank ``to``."""
    return bytes(report.octets(f"alltoallv/{of}/{to}", 8 * (of + to)))


out, into = [piece(rank, r) for r in range(size)], [piece(r, rank) for r in range(size)]
given, taken = [list(map(len, pieces)) for pieces in (out, into)]
buffer = array("B", bytes(sum(taken)))
comm.Alltoallv([b"".join(out), given], [buffer, taken])
report.check("alltoallv", buffer.tobytes() == b"".join(into), True)
buffer[:] = array("B", bytes(len(buffer)))
starts = [[sum(counts[:r]) for r in range(size)] for counts in (given, taken)]
types = [MPI.BYTE] * size
comm.Alltoallw(
    [b"".join(out), (given, starts[0]), types], [buffer, (taken, starts[1]), types]
)
report.check("alltoallw", buffer.tobytes() == b"".join(into), True)

report.done()
