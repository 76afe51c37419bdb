"""Among all: Barrier, Allreduce, Allgather and Alltoall (IMPI 4.10, 4.19, 4.21, 4.22)."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

# Barriers with messages between them, which must not change places
right, left = (rank + 1) % size, (rank - 1) % size
for i in range(3):
    request = comm.Isend(np.array([i], dtype=np.int32), right, 70)
    comm.Barrier()
    number = np.zeros(1, dtype=np.int32)
    comm.Recv(number, left, 70)
    request.Wait()
    report.check(f"message of barrier {i}", int(number[0]), i)

# Allreduce
every = [report.numbers(f"allreduce/{r}", 8) for r in range(size)]
total = np.zeros(8, dtype=np.int32)
comm.Allreduce(np.array(every[rank], dtype=np.int32), total, MPI.SUM)
report.check("sum", total.tolist(), [sum(column) for column in zip(*every, strict=True)])
largest = np.array(every[rank], dtype=np.float64)
comm.Allreduce(MPI.IN_PLACE, largest, MPI.MAX)
report.check("maximum in place", largest.tolist(), [float(max(column)) for column in zip(*every, strict=True)])

# Allgather
into = np.zeros(80 * size, dtype=np.uint8)
comm.Allgather(np.frombuffer(report.octets(f"allgather/{rank}", 80), dtype=np.uint8), into)
report.check("allgather", into.tobytes(), b"".join(report.octets(f"allgather/{r}", 80) for r in range(size)))

# Alltoall
out = b"".join(report.octets(f"alltoall/{rank}/{r}", 32) for r in range(size))
into = np.zeros(32 * size, dtype=np.uint8)
comm.Alltoall(np.frombuffer(out, dtype=np.uint8), into)
report.check("alltoall", into.tobytes(), b"".join(report.octets(f"alltoall/{r}/{rank}", 32) for r in range(size)))

report.done()
