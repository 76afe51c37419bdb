"""Columns, blocks and records: data that lies apart in memory travels together (IMPI 1.2.2)."""

import numpy as np
from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

# A column of a matrix
matrix = np.array(report.numbers(f"derived/{rank}", 24), dtype=np.float64).reshape(6, 4)
column = MPI.DOUBLE.Create_vector(6, 1, 4).Commit()
into = np.zeros(6)
comm.Sendrecv([matrix.ravel()[1:], 1, column], to, 80, into, source, 80)
report.check(
    "a column",
    into.tolist(),
    [float(v) for v in report.numbers(f"derived/{source}", 24)[1::4]],
)

# Blocks of ints in descending places, received into their mirror
ints = np.array(report.numbers(f"derived/int/{rank}", 10), dtype=np.int32)
blocks = MPI.INT.Create_indexed([2, 1, 3], [8, 4, 0]).Commit()
mirror = np.zeros(10, dtype=np.int32)
comm.Sendrecv([ints, 1, blocks], to, 81, [mirror, 1, blocks], source, 81)
theirs = report.numbers(f"derived/int/{source}", 10)
report.check(
    "blocks", mirror.tolist(), [*theirs[0:3], 0, theirs[4], 0, 0, 0, *theirs[8:10]]
)

# Records of a double and an int, with a gap of more than the alignment behind
record = (
    MPI.Datatype.Create_struct([1, 1], [0, 8], [MPI.DOUBLE, MPI.INT])
    .Create_resized(0, 24)
    .Commit()
)
shape = np.dtype(
    {"names": ["x", "n"], "formats": ["f8", "i4"], "offsets": [0, 8], "itemsize": 24}
)
mine = np.zeros(3, dtype=shape)
mine["x"], mine["n"] = (
    report.numbers(f"derived/x/{rank}", 3),
    report.numbers(f"derived/n/{rank}", 3),
)
got = np.zeros(3, dtype=shape)
status = MPI.Status()
comm.Sendrecv([mine, 3, record], to, 82, [got, 3, record], source, 82, status)
# Three records are three quarters of a column.
report.check(
    "counts",
    (
        status.Get_count(record),
        status.Get_elements(record),
        status.Get_count(column),
    ),
    (3, 6, MPI.UNDEFINED),
)
report.check(
    "x of records",
    got["x"].tolist(),
    [float(v) for v in report.numbers(f"derived/x/{source}", 3)],
)
report.check(
    "n of records", got["n"].tolist(), report.numbers(f"derived/n/{source}", 3)
)
for datatype in (column, blocks, record):
    datatype.Free()

report.done()
