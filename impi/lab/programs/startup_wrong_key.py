"""The last client has another key than the server, which refuses it (IMPI 2.3.3)."""

from begun import report  # type: ignore[import-not-found]

# MPI_Init waits for all clients: nobody comes as far as this.
report.check("nobody starts", report.rank, None)
report.done()
