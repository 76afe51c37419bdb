"""An operation that does not commute is applied in rank order (IMPI 4.16, 4.18)."""

from typing import Any

import numpy as np
from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI


def affine(invec: Any, inoutvec: Any, _datatype: object) -> None:
    """Compose maps x -> a x + b, modulo a prime: associative, not commutative."""
    first, second = (
        np.frombuffer(invec, dtype=np.int32),
        np.frombuffer(inoutvec, dtype=np.int32),
    )
    second[:] = (first[0] * second[0]) % 251, (first[0] * second[1] + first[1]) % 251


op = MPI.Op.Create(affine, commute=False)
maps = [[v % 251 for v in report.numbers(f"ordered/{r}", 2)] for r in range(size)]
expected = maps[-1]
for a, b in reversed(maps[:-1]):
    expected = [a * expected[0] % 251, (a * expected[1] + b) % 251]
for root in (0, size - 1):
    result = np.zeros(2, dtype=np.int32)
    comm.Reduce(
        np.array(maps[rank], dtype=np.int32), result if rank == root else None, op, root
    )
    report.check(f"at {root}", rank != root or result.tolist() == expected, True)
result = np.zeros(2, dtype=np.int32)
comm.Allreduce(np.array(maps[rank], dtype=np.int32), result, op)
report.check("everywhere", result.tolist(), expected)

expected = maps[rank]
for a, b in reversed(maps[:rank]):
    expected = [a * expected[0] % 251, (a * expected[1] + b) % 251]
comm.Scan(np.array(maps[rank], dtype=np.int32), result, op)
report.check("up to here", result.tolist(), expected)
op.Free()

report.done()
