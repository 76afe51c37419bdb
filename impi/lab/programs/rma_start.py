"""Windows by post and start: data, long sums and a swap, from each rank to the next."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

right, left = (rank + 1) % size, (rank - 1) % size
long = report.plan["params"]["long"]
memory = array("i", report.numbers(f"base/{rank}", 9 + long))
window = MPI.Win.Create(memory, 4, MPI.INFO_NULL, comm)
group = comm.Get_group()
swapped = array("i", [-1])
# The ninth int of the right, which that has as its first number but eight
expected = report.numbers(f"base/{right}", 9 + long)[8]

window.Post(group.Incl([left]))
window.Start(group.Incl([right]))
window.Put(array("i", report.numbers(f"put/{rank}", 8)), right, 0)
window.Compare_and_swap(
    array("i", [rank + 1]), array("i", [expected]), swapped, right, 8
)
more = array("i", report.numbers(f"add/{rank}", long))
window.Accumulate(more, right, (9, long, MPI.INT), MPI.SUM)
window.Complete()
window.Wait()

base, added = (
    report.numbers(f"base/{rank}", 9 + long),
    report.numbers(f"add/{left}", long),
)
report.check("put by the left", memory[:8].tolist(), report.numbers(f"put/{left}", 8))
report.check("swapped by the left", memory[8], left + 1)
report.check("what was there before", swapped[0], expected)
sums = [one + other for one, other in zip(base[9:], added, strict=True)]
report.check("long sums", memory[9:].tolist(), sums)
window.Free()

report.done()
