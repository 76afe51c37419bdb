"""Forty communicators, made and freed in turn: ids stay apart and come back (IMPI 4.3.1, 4.5)."""

from array import array

from begun import comm, rank, report, size, source, to  # type: ignore[import-not-found]

held = []
for i in range(40):
    held.append(comm.Dup() if i % 2 else comm.Split(0, -rank))
    if len(held) == 8:
        for made in held[::2]:
            made.Free()
        held = held[1::2]
last = comm.Dup()
into = array("B", bytes(12))
last.Sendrecv(report.octets(f"many/{rank}", 12), to, 7, into, source, 7)
report.check("on the last", into.tobytes(), report.octets(f"many/{source}", 12))
report.check("all agree", last.allreduce(len(held)), size * len(held))
for made in (*held, last):
    made.Free()

report.done()
