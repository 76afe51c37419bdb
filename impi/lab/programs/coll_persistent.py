"""Persistent collectives, started three times with other contents."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

values, total = array("i", bytes(28)), array("i", bytes(28))
data = array("i", bytes(44))
requests = [
    comm.Allreduce_init(values, total, MPI.SUM),
    comm.Bcast_init(data, size - 1),
]
for turn in range(3):
    every = [report.numbers(f"persistent/{turn}/{r}", 7) for r in range(size)]
    values[:] = array("i", every[rank])
    data[:] = array(
        "i",
        report.numbers(f"persistent/bcast/{turn}", 11)
        if rank == size - 1
        else [0] * 11,
    )
    MPI.Prequest.Startall(requests)
    MPI.Request.Waitall(requests)
    report.check(
        f"sum of turn {turn}",
        total.tolist(),
        [sum(column) for column in zip(*every, strict=True)],
    )
    report.check(
        f"bcast of turn {turn}",
        data.tolist(),
        report.numbers(f"persistent/bcast/{turn}", 11),
    )
for request in requests:
    request.Free()

report.done()
