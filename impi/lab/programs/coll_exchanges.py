"""Barrier, Allgather and Allreduce where all masters speak at once, and results are in place."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

# Barriers with messages between them, which must not change places
right, left = (rank + 1) % size, (rank - 1) % size
for i in range(3):
    request = comm.Isend(array("i", [i]), right, 70)
    comm.Barrier()
    number = array("i", [-1])
    comm.Recv(number, left, 70)
    request.Wait()
    report.check(f"message of barrier {i}", number[0], i)

# Allgather, short, and long enough to arrive in its place
for length in report.plan["params"]["lengths"]:
    pieces = [report.octets(f"exchange/{length}/{r}", length) for r in range(size)]
    into = bytearray(length * size)
    comm.Allgather(pieces[rank], into)
    report.check(f"allgather of {length}", bytes(into), b"".join(pieces))

# Allreduce, short and long, apart and in place
for count in report.plan["params"]["counts"]:
    every = [report.numbers(f"exchange/sum/{count}/{r}", count) for r in range(size)]
    wanted = [sum(column) for column in zip(*every, strict=True)]
    total = array("i", bytes(4 * count))
    comm.Allreduce(array("i", every[rank]), total)
    report.check(f"sum of {count}", total.tolist(), wanted)
    again = array("i", every[rank])
    comm.Allreduce(MPI.IN_PLACE, again)
    report.check(f"sum of {count} in place", again.tolist(), wanted)

report.done()
