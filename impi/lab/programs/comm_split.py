"""Communicators of their own: a duplicate, and halves across the clients (IMPI 4.3, 4.6, 4.7)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

right, left = (rank + 1) % size, (rank - 1) % size
twin = comm.Dup()
into = bytearray(24)
twin.Sendrecv(report.octets(f"dup/{rank}", 24), right, 7, into, left, 7)
report.check("around the duplicate", bytes(into), report.octets(f"dup/{left}", 24))

half = comm.Split(rank % 2, -rank)  # descending: the order is the key's, not the rank's
members = sorted((r for r in range(size) if r % 2 == rank % 2), reverse=True)
report.check(
    "size and rank in the half",
    (half.Get_size(), half.Get_rank()),
    (len(members), members.index(rank)),
)
total = array("i", [0])
half.Allreduce(array("i", [rank]), total, MPI.SUM)
report.check("sum over the half", total[0], sum(members))
report.check("members of the half", half.allgather(rank), members)
half.Free()
twin.Free()
nothing = comm.Split(MPI.UNDEFINED if rank == 0 else 0, rank)
report.check("no communicator", nothing == MPI.COMM_NULL, rank == 0)

report.done()
