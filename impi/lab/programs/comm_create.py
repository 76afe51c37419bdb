"""Communicators of groups: Create by all, Create_group by its members only (IMPI 4.4)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

world = comm.Get_group()
chosen = [r for r in range(size) if r != 1][::-1]
group = world.Incl(chosen)
for name, made in (
    ("Create", comm.Create(group)),
    ("Create_group", comm.Create_group(group, 4) if rank in chosen else MPI.COMM_NULL),
):
    report.check(f"{name}: who is in it", made != MPI.COMM_NULL, rank in chosen)
    if made == MPI.COMM_NULL:
        continue
    n, me = len(chosen), chosen.index(rank)
    report.check(f"{name}: size and rank", (made.Get_size(), made.Get_rank()), (n, me))
    into = array("B", bytes(18))
    out = report.octets(f"create/{name}/{rank}", 18)
    made.Sendrecv(out, (me + 1) % n, 7, into, (me - 1) % n, 7)
    report.check(
        f"{name}: around",
        into.tobytes(),
        report.octets(f"create/{name}/{chosen[me - 1]}", 18),
    )
    made.Free()
# Odd ranks, then even ones, all of them by sets
even = world.Range_incl([(0, (size - 1) // 2 * 2, 2)])
odd = MPI.Group.Difference(world, even)
both = MPI.Group.Union(odd, even)
report.check(
    "a union of groups",
    list(MPI.Group.Translate_ranks(both, None, world)),
    [*range(1, size, 2), *range(0, size, 2)],
)
for each in (both, odd, even, group, world):
    each.Free()

report.done()
