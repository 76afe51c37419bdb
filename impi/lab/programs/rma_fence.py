"""Windows by fences: a ring of Puts, sums from everybody at both ends of the job, and long data."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

right, left = (rank + 1) % size, (rank - 1) % size
long = report.plan["params"]["long"]

memory = array("i", bytes(4 * 24))
window = MPI.Win.Create(memory, 4, MPI.INFO_NULL, comm)
window.Fence()

# Epoch 1: once around
window.Put(array("i", report.numbers(f"put/{rank}", 16)), right, 0)
window.Fence()
report.check("put by the left", memory[:16].tolist(), report.numbers(f"put/{left}", 16))

# Epoch 2: everybody adds to the first and the last rank, twice
for turn in range(2):
    for target in (0, size - 1):
        window.Accumulate(
            array("i", report.numbers(f"add/{turn}/{rank}", 8)),
            target,
            (16, 8, MPI.INT),
            MPI.SUM,
        )
window.Fence()
rows = [report.numbers(f"add/{turn}/{r}", 8) for r in range(size) for turn in range(2)]
sums = [sum(column) for column in zip(*rows, strict=True)]
report.check("sums", memory[16:].tolist(), sums if rank in (0, size - 1) else [0] * 8)

# Epoch 3: what the left has put into the right is read back
back = array("i", bytes(4 * 16))
window.Get(back, right, 0)
window.Fence()
report.check("got from the right", back.tolist(), report.numbers(f"put/{rank}", 16))
window.Free()

# Data that does not fit beside its header
octets = bytearray(long)
window = MPI.Win.Create(octets, 1, MPI.INFO_NULL, comm)
window.Fence()
window.Put(report.octets(f"long/{rank}", long), right)
window.Fence()
report.check(
    "long data put by the left", bytes(octets), report.octets(f"long/{left}", long)
)
window.Free()

report.done()
