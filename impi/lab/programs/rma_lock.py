"""Windows by locks: all take turns at a counter of rank 0, then count without turns."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]
from mpi4py import MPI

turns = report.plan["params"]["turns"]

memory = array("i", bytes(4 * (2 + size)) if rank == 0 else b"")
window = MPI.Win.Create(memory, 4, MPI.INFO_NULL, comm)

# Read, add 1 and write: right only if no other rank does so meanwhile
for _ in range(turns):
    value = array("i", [-1])
    window.Lock(0, MPI.LOCK_EXCLUSIVE)
    window.Get(value, 0, 0)
    window.Flush(0)
    value[0] += 1
    window.Put(value, 0, 0)
    window.Unlock(0)

# Fetch and add: right whoever else does so
seen = []
window.Lock_all()
for _ in range(turns):
    before = array("i", [-1])
    window.Fetch_and_op(array("i", [1]), before, 0, 1, MPI.SUM)
    window.Flush(0)
    seen.append(before[0])
window.Put(array("i", report.numbers(f"own/{rank}", 1)), 0, (2 + rank, 1, MPI.INT))
window.Unlock_all()
report.check("what was fetched grows", seen, sorted(set(seen)))

comm.Barrier()
if rank == 0:
    window.Lock(0, MPI.LOCK_SHARED)
    report.check("counted in turns", memory[0], turns * size)
    report.check("counted without turns", memory[1], turns * size)
    report.check(
        "put by each",
        memory[2:].tolist(),
        [report.numbers(f"own/{r}", 1)[0] for r in range(size)],
    )
    window.Unlock(0)
window.Free()

report.done()
