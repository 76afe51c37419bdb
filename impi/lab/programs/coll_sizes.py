"""Collectives of 1 KiB to 128 KiB, between short and long (IMPI 4.11, 4.12, 4.14, 4.21, 4.22)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

for n in report.plan["params"]["sizes"]:
    whole = bytearray(report.octets(f"sizes/bcast/{n}", n) if rank == 0 else n)
    comm.Bcast(whole, 0)
    report.check(f"bcast of {n}", bytes(whole), report.octets(f"sizes/bcast/{n}", n))

    own = report.octets(f"sizes/gather/{n}/{rank}", n)
    into = bytearray(n * size) if rank == 0 else None
    comm.Gather(own, into, 0)
    every = b"".join(report.octets(f"sizes/gather/{n}/{r}", n) for r in range(size))
    report.check(f"gather of {n}", bytes(into) if into is not None else every, every)
    back = bytearray(n)
    comm.Scatter(into, back, 0)
    report.check(f"scatter of {n}", bytes(back), own)

    values = array("d", report.numbers(f"sizes/sum/{n}/{rank}", n // 8))
    total = array("d", bytes(n))
    comm.Allreduce(values, total, MPI.SUM)
    columns = zip(
        *(report.numbers(f"sizes/sum/{n}/{r}", n // 8) for r in range(size)),
        strict=True,
    )
    report.check(
        f"allreduce of {n}", total.tobytes(), array("d", map(sum, columns)).tobytes()
    )

    out = b"".join(
        report.octets(f"sizes/alltoall/{n}/{rank}/{r}", n) for r in range(size)
    )
    table = bytearray(n * size)
    comm.Alltoall(out, table)
    theirs = b"".join(
        report.octets(f"sizes/alltoall/{n}/{r}/{rank}", n) for r in range(size)
    )
    report.check(f"alltoall of {n}", bytes(table), theirs)

report.done()
