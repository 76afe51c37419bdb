"""The last client has no authentication method in common with the server (IMPI 2.3.3)."""

from begun import report  # type: ignore[import-not-found]

# MPI_Init waits for all clients: nobody comes as far as this.
report.check("nobody starts", report.rank, None)
report.done()
