"""Python objects: point-to-point, and every collective operation that takes them."""

from begun import comm, rank, report, size, source, to  # type: ignore[import-not-found]


def thing(of: int) -> object:
    """Return the object that rank ``of`` sends."""
    return {
        "rank": of,
        "octets": report.octets(f"objects/{of}", 48),
        "list": list(range(of + 5)),
        "none": None,
    }


report.check(
    "sendrecv",
    comm.sendrecv(thing(rank), to, 60, source=source, recvtag=60),
    thing(source),
)
request = comm.isend(thing(rank), to, tag=61)
report.check("recv", comm.recv(source=source, tag=61), thing(source))
request.wait()
large = comm.sendrecv(
    report.octets(f"objects/large/{rank}", 5000), to, 62, source=source, recvtag=62
)
report.check("large", large == report.octets(f"objects/large/{source}", 5000), True)

every = [thing(r) for r in range(size)]
report.check("bcast", comm.bcast(every[0] if rank == 0 else None, 0), every[0])
report.check("gather", comm.gather(every[rank], 0), every if rank == 0 else None)
report.check("scatter", comm.scatter(every if rank == 0 else None, 0), every[rank])
report.check("allgather", comm.allgather(every[rank]), every)
report.check(
    "alltoall",
    comm.alltoall([(rank, r) for r in range(size)]),
    [(r, rank) for r in range(size)],
)
report.check(
    "reduce", comm.reduce([rank], root=0), list(range(size)) if rank == 0 else None
)
report.check("allreduce", comm.allreduce(rank + 1), size * (size + 1) // 2)

report.done()
