"""Once around: send to the right, receive from the left, octets and doubles (IMPI 3.7.1, 1.2.2)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

right, left = (rank + 1) % size, (rank - 1) % size

octets = report.octets(f"ring/{rank}", 256)
into = array("B", bytes(256))
status = MPI.Status()
comm.Sendrecv(octets, right, 7, into, left, 7, status)
report.check("octets from the left", into.tobytes(), report.octets(f"ring/{left}", 256))
report.check(
    "source, tag, count",
    (status.Get_source(), status.Get_tag(), status.Get_count(MPI.BYTE)),
    (left, 7, 256),
)

doubles = array("d", report.numbers(f"ring/double/{rank}", 32))
received = array("d", bytes(256))
comm.Sendrecv(doubles, right, 8, received, left, 8)
report.check(
    "doubles from the left",
    received.tolist(),
    [float(v) for v in report.numbers(f"ring/double/{left}", 32)],
)

ints = array("i", report.numbers(f"ring/int/{rank}", 9))
whole = array("i", bytes(36))
comm.Sendrecv(ints, right, 9, whole, left, 9)
report.check(
    "ints from the left", whole.tolist(), report.numbers(f"ring/int/{left}", 9)
)

report.done()
