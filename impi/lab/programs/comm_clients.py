"""A program that knows its clients: sums inside each, then among their first ranks (IMPI 2.5)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI


def attributes(of: MPI.Comm) -> tuple[object, ...]:
    """Return the number of clients that a communicator spans, and the number of this rank's own."""
    return tuple(
        of.Get_attr(getattr(MPI, f"IMPI_CLIENT_{name}")) for name in ("SIZE", "COLOR")
    )


_, color = attributes(comm)
home = comm.Split(int(str(color)), rank)
report.check("one client", home.allgather(rank), report.clients[report.client])
report.check("clients in it", attributes(home), (1, 0))
firsts = comm.Split(0 if home.Get_rank() == 0 else MPI.UNDEFINED, rank)
every = {r: report.numbers(f"clients/{r}", 4) for r in range(size)}
inside = array("i", bytes(16))
home.Reduce(array("i", every[rank]), inside, MPI.SUM, 0)
total = array("i", bytes(16))
if firsts != MPI.COMM_NULL:
    n, me = firsts.Get_size(), firsts.Get_rank()
    report.check("clients among the firsts", attributes(firsts), (n, me))
    right, left = (me + 1) % n, (me - 1) % n
    theirs = array("i", bytes(16))
    firsts.Sendrecv(inside, right, 7, theirs, left, 7)
    expected = [
        sum(column)
        for column in zip(*(every[r] for r in report.clients[left]), strict=True)
    ]
    report.check("the left client's", theirs.tolist(), expected)
    firsts.Allreduce(inside, total, MPI.SUM)
    firsts.Free()
home.Bcast(total, 0)
report.check(
    "of all",
    total.tolist(),
    [sum(column) for column in zip(*every.values(), strict=True)],
)
home.Free()

report.done()
