"""Pieces of other lengths for every rank: Gatherv, Scatterv, Allgatherv (IMPI 4.13, 4.15, 4.20)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

counts = [3 * r + 1 for r in range(size)]
places = [sum(counts[:r]) for r in range(size)]
every = [report.octets(f"vectors/{r}", counts[r]) for r in range(size)]
own = every[rank]
for root in (0, size - 1):
    into = array("B", bytes(sum(counts)))
    comm.Gatherv(own, [into, counts, places, MPI.BYTE] if rank == root else None, root)
    report.check(
        f"gatherv to {root}", rank != root or into.tobytes() == b"".join(every), True
    )
    back = array("B", bytes(counts[rank]))
    comm.Scatterv(
        [into, counts, places, MPI.BYTE] if rank == root else None, back, root
    )
    report.check(f"scatterv from {root}", back.tobytes(), every[rank])
into = array("B", bytes(sum(counts)))
comm.Allgatherv(own, [into, counts, places, MPI.BYTE])
report.check("allgatherv", into.tobytes(), b"".join(every))

report.done()
