"""From and to every root: Bcast, Reduce, Gather and Scatter (IMPI 4.11, 4.12, 4.14, 4.16)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

# Bcast of doubles
for root in range(size):
    values = report.numbers(f"bcast/{root}", 40)
    buffer = array("d", values if rank == root else [0] * 40)
    comm.Bcast(buffer, root)
    report.check(f"bcast from {root}", buffer.tolist(), [float(v) for v in values])

# Reduce of ints
mine = array("i", report.numbers(f"reduce/{rank}", 12))
every = [report.numbers(f"reduce/{r}", 12) for r in range(size)]
for root in range(size):
    result = array("i", bytes(48))
    comm.Reduce(mine, result if rank == root else None, MPI.SUM, root)
    if rank == root:
        report.check(
            f"sum to {root}",
            result.tolist(),
            [sum(column) for column in zip(*every, strict=True)],
        )

# Gather and Scatter of octets, on either side of 1024, where "long" begins (IMPI 2.3.5)
for root in (0, size - 1):
    for n in (64, 2048):
        own = report.octets(f"gather/{root}/{n}/{rank}", n)
        all_of_them = b"".join(
            report.octets(f"gather/{root}/{n}/{r}", n) for r in range(size)
        )
        into = bytearray(n * size) if rank == root else None
        comm.Gather(own, into, root)
        report.check(f"gather {n} to {root}", into is None or into == all_of_them, True)
        back = bytearray(n)
        comm.Scatter(into, back, root)
        report.check(f"scatter {n} from {root}", back == own, True)

report.done()
