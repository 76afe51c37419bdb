"""An unreceived send is taken back and leaves no trace at the receiver (IMPI 3.7.4).

Inside a client of pure, too. Other libraries may take nothing back.
"""

from array import array

from begun import comm, rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

remote = report.client_of(rank) != report.client_of(to)
mine = report.clients[report.client]
inside = report.plan["vendor"] == "pure" and len(mine) > 1
near = mine[(mine.index(rank) + 1) % len(mine)]
status = MPI.Status()
if remote:
    for tag, n in ((56, 64), (57, 400_000)):
        request = comm.Issend(report.octets(f"cancel/{rank}/{tag}", n), to, tag)
        request.Cancel()
        request.Wait(status)
        report.check(f"cancelled {n}", status.Is_cancelled(), True)
if inside:
    for n in (64, 400_000):
        request = comm.Issend(report.octets(f"cancel/inside/{rank}", n), near, 59)
        request.Cancel()
        request.Wait(status)
        report.check(f"cancelled {n} inside", status.Is_cancelled(), True)
comm.Barrier()
if inside:
    report.check("nothing inside", comm.Iprobe(MPI.ANY_SOURCE, 59), False)
report.check("nothing there", comm.Iprobe(source, MPI.ANY_TAG), False)
comm.Barrier()
# A receive is taken back without a word on the wire.
request = comm.Irecv(array("B", bytes(1)), source, 58)
request.Cancel()
request.Wait(status)
report.check("cancelled receive", status.Is_cancelled(), True)
into = array("B", bytes(20))
comm.Sendrecv(report.octets(f"cancel/next/{rank}", 20), to, 56, into, source, 56)
report.check(
    "the next message", into.tobytes(), report.octets(f"cancel/next/{source}", 20)
)

report.done()
