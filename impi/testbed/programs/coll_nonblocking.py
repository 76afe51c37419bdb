"""Four collectives under way at once, beside a message, completed in reverse."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size
to, source = (rank + size // 2) % size, (rank - size // 2) % size

into = np.zeros(20, dtype=np.uint8)
note = comm.Irecv(into, source, 72)
data = np.array(report.numbers("nonblocking/bcast", 15) if rank == 0 else [0] * 15, dtype=np.int32)
every = [report.numbers(f"nonblocking/{r}", 9) for r in range(size)]
total = np.zeros(9, dtype=np.int32)
pieces = np.zeros(9 * size, dtype=np.int32)
requests = [
    comm.Ibcast(data, 0),
    comm.Iallreduce(np.array(every[rank], dtype=np.int32), total, MPI.SUM),
    comm.Ibarrier(),
    comm.Iallgather(np.array(every[rank], dtype=np.int32), pieces),
]
comm.Send(np.frombuffer(report.octets(f"nonblocking/note/{rank}", 20), dtype=np.uint8), to, 72)
note.Wait()
report.check("message", into.tobytes(), report.octets(f"nonblocking/note/{source}", 20))
for request in reversed(requests):
    request.Wait()
report.check("bcast", data.tolist(), report.numbers("nonblocking/bcast", 15))
report.check("sum", total.tolist(), [sum(column) for column in zip(*every, strict=True)])
report.check("allgather", pieces.tolist(), [v for row in every for v in row])

report.done()
