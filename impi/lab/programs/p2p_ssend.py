"""A synchronous send is complete only when its receive has begun (IMPI 3.7.1)."""

from array import array

from begun import comm, rank, report, size, source, to  # type: ignore[import-not-found]

out = report.octets(f"ssend/{rank}", 64)
request = comm.Issend(out, to, 50)
comm.Barrier()
report.check("complete although no proc receives", request.Test(), False)
comm.Barrier()
into = array("B", bytes(64))
comm.Recv(into, source, 50)
request.Wait()
report.check("octets", into.tobytes(), report.octets(f"ssend/{source}", 64))

# The blocking form; the lower half sends first, so that no rank waits in a circle.
again = array("B", bytes(64))
for sends in (rank < size // 2, rank >= size // 2):
    if sends:
        comm.Ssend(out, to, 51)
    else:
        comm.Recv(again, source, 51)
report.check("octets of Ssend", again.tobytes(), report.octets(f"ssend/{source}", 64))

# Inside a client the vendor's library carries it, and the send waits there, too.
mine = report.clients[report.client]
at = mine.index(rank)
right, left = mine[(at + 1) % len(mine)], mine[at - 1]
request = comm.Issend(out, right, 52)
comm.Barrier()
report.check(
    "complete inside the client although no proc receives", request.Test(), False
)
comm.Barrier()
comm.Recv(into, left, 52)
request.Wait()
report.check(
    "octets inside the client", into.tobytes(), report.octets(f"ssend/{left}", 64)
)

report.done()
