"""Names of environment variables that impirun and the judges both know."""

from typing import Final

PREFIX: Final = "IMPI_PREFIX_"
"""With a vendor's name in capitals at its end: where its library is installed."""
HANDLES_FROM: Final = "IMPI_HANDLES_FROM"
"""For the hook: Python's version, mpi4py's extension, and our library under each of its names."""
STANDS_IN: Final = "IMPI_STANDS_IN"
"""The ABI whose library is ours in this process, under the name of a vendor's."""
VENDORS: Final = "IMPI_VENDORS"
"""A folder of vendors' folders, in place of the checkout's ``images/``."""
PARENT: Final = "IMPI_PARENT_PORT"
"""For procs that others have started by MPI_Comm_spawn: the port of these."""
