"""The last client has no authentication method in common with the server (IMPI 2.3.3)."""

from begun import report  # type: ignore[import-not-found]

# MPI_Init waits for all clients: no rank comes as far as this.
report.check("no proc starts", report.rank, None)
report.done()
