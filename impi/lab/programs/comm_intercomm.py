"""Two groups: messages and collectives between them, then their merger (IMPI 4.8, 4.9)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

# The first client against all others
first = report.clients[0]
inside = rank in first
mine, theirs = (first, [r for r in range(size) if r not in first])[
    :: 1 if inside else -1
]
local = comm.Split(0 if inside else 1, rank)
assert isinstance(local, MPI.Intracomm)
inter = local.Create_intercomm(0, comm, theirs[0], 12)
report.check(
    "sizes", (inter.Get_size(), inter.Get_remote_size()), (len(mine), len(theirs))
)
me = mine.index(rank)
partners = min(len(mine), len(theirs))
if me < partners:
    into = array("B", bytes(22))
    out = report.octets(f"inter/{rank}", 22)
    inter.Sendrecv(out, me, 7, into, me, 7)
    report.check(
        "from the other group", into.tobytes(), report.octets(f"inter/{theirs[me]}", 22)
    )
report.check("allgather", inter.allgather(rank), theirs)
both = inter.Merge(high=not inside)
report.check("merged", both.allgather(rank), [*first, *(theirs if inside else mine)])
tied = inter.Merge(high=True)
# With equal flags, the group with the lower first rank comes first
lower, upper = sorted((mine, theirs))
report.check("merged without an order", tied.allgather(rank), [*lower, *upper])
tied.Free()
both.Free()
inter.Free()
local.Free()

report.done()
