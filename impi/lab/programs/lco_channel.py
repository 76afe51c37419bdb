"""LCOs: a channel from each rank to the one half the job away; a forged name opens none."""

from array import array
from typing import Any

from begun import rank, report, source, to  # type: ignore[import-not-found]
from mpi4py import MPI

ours: Any = MPI  # mpi4py has no LCOs
world = MPI.COMM_WORLD
count, long = report.plan["params"]["count"], report.plan["params"]["long"]

# Each has an object that one other may send to: the name travels by an ordinary message.
inbox = ours.Create_local()
inbox.Add_receive_slots(1)
name = bytearray(ours.CNAME.Get_size())
world.Sendrecv(
    [inbox.Get_lco_name(), 1, ours.CNAME], source, 9, [name, 1, ours.CNAME], to, 9
)
outbox = ours.Create_local()
outbox.Add_send_slots([name], [0])

requests = [
    outbox.Isend(report.octets(f"lco/{rank}/{i}", 48), 0, i) for i in range(count)
]
for i in range(count):
    into = bytearray(48)
    inbox.Recv(into, 0, i)
    report.check(f"message {i}", bytes(into), report.octets(f"lco/{source}/{i}", 48))
MPI.Request.Waitall(requests)

# Longer data waits until a receive takes it.
request = outbox.Isend(report.octets(f"lco/long/{rank}", long), 0, count)
octets, status = bytearray(long), MPI.Status()
inbox.Recv(octets, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
request.Wait()
report.check("long data", bytes(octets), report.octets(f"lco/long/{source}", long))
report.check("slot and tag", (status.Get_source(), status.Get_tag()), (0, count))

# A rank without the slot's name cannot make one up.
forged = ours.Create_local()
forged.Add_send_slots([bytes(name[:-1]) + bytes([name[-1] ^ 1])], [0])
try:
    forged.Ssend(array("i", [1]), 0)
    refused = MPI.SUCCESS
except MPI.Exception as failure:
    refused = failure.Get_error_class()
report.check("a forged name is refused", refused, MPI.ERR_PORT)

world.Barrier()
for each in (forged, outbox, inbox):
    each.Free()
report.done()
