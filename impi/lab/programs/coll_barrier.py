"""Barriers with messages between them, which do not change places (IMPI 4.10)."""

from array import array

from begun import comm, rank, report, size  # type: ignore[import-not-found]

right, left = (rank + 1) % size, (rank - 1) % size
for i in range(3):
    request = comm.Isend(array("i", [i]), right, 70)
    comm.Barrier()
    number = array("i", [-1])
    comm.Recv(number, left, 70)
    request.Wait()
    report.check(f"message of barrier {i}", number[0], i)

report.done()
