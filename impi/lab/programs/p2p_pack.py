"""MPI_Pack between clients makes external32, without header or trailer (IMPI 4.1)."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

ints = array("i", report.numbers(f"pack/int/{rank}", 4))
doubles = array("d", report.numbers(f"pack/double/{rank}", 3))
buffer = bytearray(MPI.INT.Pack_size(4, comm) + MPI.DOUBLE.Pack_size(3, comm))
position = MPI.INT.Pack(ints, buffer, 0, comm)
position = MPI.DOUBLE.Pack(doubles, buffer, position, comm)
into = bytearray(len(buffer))
status = MPI.Status()
comm.Sendrecv(
    [buffer, position, MPI.PACKED],
    to,
    85,
    [into, len(into), MPI.PACKED],
    source,
    85,
    status,
)
report.check("octets", status.Get_count(MPI.PACKED), 4 * 4 + 3 * 8)
got_ints, got_doubles = array("i", bytes(16)), array("d", bytes(24))
position = MPI.INT.Unpack(into, 0, got_ints, comm)
MPI.DOUBLE.Unpack(into, position, got_doubles, comm)
report.check("ints", got_ints.tolist(), report.numbers(f"pack/int/{source}", 4))
report.check(
    "doubles",
    got_doubles.tolist(),
    [float(v) for v in report.numbers(f"pack/double/{source}", 3)],
)

report.done()
