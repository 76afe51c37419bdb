"""Start-up and shutdown only; the wire shows how clients authenticated (IMPI 2.3.3)."""

from begun import report, size  # type: ignore[import-not-found]

report.check("size of MPI_COMM_WORLD", size, sum(map(len, report.clients)))

report.done()
