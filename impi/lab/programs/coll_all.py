"""Among all: Barrier, Allreduce, Allgather and Alltoall (IMPI 4.10, 4.19, 4.21, 4.22)."""

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

# Allreduce
every = [report.numbers(f"allreduce/{r}", 8) for r in range(size)]
total = array("i", bytes(32))
comm.Allreduce(array("i", every[rank]), total, MPI.SUM)
report.check(
    "sum", total.tolist(), [sum(column) for column in zip(*every, strict=True)]
)
largest = array("d", every[rank])
comm.Allreduce(MPI.IN_PLACE, largest, MPI.MAX)
report.check(
    "maximum in place",
    largest.tolist(),
    [float(max(column)) for column in zip(*every, strict=True)],
)

# Allgather
into = bytearray(80 * size)
comm.Allgather(report.octets(f"allgather/{rank}", 80), into)
report.check(
    "allgather",
    bytes(into),
    b"".join(report.octets(f"allgather/{r}", 80) for r in range(size)),
)

# Alltoall
out = b"".join(report.octets(f"alltoall/{rank}/{r}", 32) for r in range(size))
into = bytearray(32 * size)
comm.Alltoall(out, into)
report.check(
    "alltoall",
    bytes(into),
    b"".join(report.octets(f"alltoall/{r}/{rank}", 32) for r in range(size)),
)

report.done()
