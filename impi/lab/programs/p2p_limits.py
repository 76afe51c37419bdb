"""Clients offer other limits, and all keep to the least of each (IMPI 2.3.5, 3.6, 3.7.2)."""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

params = report.plan["params"]

report.check("MPI_TAG_UB", comm.Get_attr(MPI.TAG_UB), params["tag_ub"])

# Around the least length of a packet, with the highest tags
for n, tag in params["lengths"]:
    into = array("B", bytes(n))
    comm.Sendrecv(report.octets(f"limits/{n}/{rank}", n), to, tag, into, source, tag)
    report.check(
        f"{n} octets, tag {tag}",
        into.tobytes(),
        report.octets(f"limits/{n}/{source}", n),
    )

# More messages than any client may have under way, before any receive
requests = [comm.Isend(array("i", [rank, i]), to, 36) for i in range(params["count"])]
seen = []
pair = array("i", bytes(8))
for _ in requests:
    comm.Recv(pair, source, 36)
    seen.append(pair.tolist())
report.check("all, in their order", seen, [[source, i] for i in range(params["count"])])
MPI.Request.Waitall(requests)

report.done()
