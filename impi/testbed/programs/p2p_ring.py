"""Once around: everybody sends to the right and receives from the left, octets and doubles (IMPI 3.7.1, 1.2.2)."""

from __future__ import annotations

import numpy as np
from mpi4py import MPI
from report import Report  # type: ignore[import-not-found]

report = Report(MPI)
comm = MPI.COMM_WORLD
rank, size = report.rank, report.size

right, left = (rank + 1) % size, (rank - 1) % size

octets = np.frombuffer(report.octets(f"ring/{rank}", 256), dtype=np.uint8)
into = np.zeros(256, dtype=np.uint8)
status = MPI.Status()
comm.Sendrecv(octets, right, 7, into, left, 7, status)
report.check("octets from the left", into.tobytes(), report.octets(f"ring/{left}", 256))
report.check("source, tag, count", (status.Get_source(), status.Get_tag(), status.Get_count(MPI.BYTE)), (left, 7, 256))

doubles = np.array(report.numbers(f"ring/double/{rank}", 32), dtype=np.float64)
received = np.zeros(32, dtype=np.float64)
comm.Sendrecv(doubles, right, 8, received, left, 8)
report.check("doubles from the left", received.tolist(), [float(v) for v in report.numbers(f"ring/double/{left}", 32)])

ints = np.array(report.numbers(f"ring/int/{rank}", 9), dtype=np.int32)
whole = np.zeros(9, dtype=np.int32)
comm.Sendrecv(ints, right, 9, whole, left, 9)
report.check("ints from the left", whole.tolist(), report.numbers(f"ring/int/{left}", 9))

report.done()
