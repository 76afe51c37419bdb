"""Names of environment variables that impirun and the judges share, and the form of one value."""

from typing import Final

from impi.base.errors import UsageError

PREFIX: Final = "IMPI_PREFIX_"
"""Prefix of variables with a library's folder; the vendor's name in capitals follows."""
HANDLES_FROM: Final = "IMPI_HANDLES_FROM"
"""For the hook: Python's version, mpi4py's extension, and our library under each name."""
MPI4PY_FROM: Final = "IMPI_MPI4PY_FROM"
"""Folders of the mpi4py of impirun's Python, where the program's Python is another one."""
STANDS_IN: Final = "IMPI_STANDS_IN"
"""The ABI of the program in this process, where our library has the name of a vendor's."""
BEHIND: Final = "IMPI_BEHIND"
"""Path of the client's own library, for front mode in programs behind a script."""
USHER: Final = "IMPI_USHER"
"""A library for the processes that a program in Python starts before it uses MPI itself."""
USHERED: Final = "IMPI_USHERED"
"""Process id of a program behind a script that has begun anew, with our library."""
PRELOAD: Final = "IMPI_PRELOAD"
"""The LD_PRELOAD of such a program, kept while Python starts it anew."""
VENDORS: Final = "IMPI_VENDORS"
"""A folder with vendors' folders, in place of ``images/`` and the user's own."""
PORTS: Final = "IMPI_PORTS"
"""Ports at which hosts listen for other clients: impirun's --ports."""
RELAY: Final = "IMPI_RELAY"
"""HOST:PORT of the relay that accepts connections for a client's hosts: impirun's --relay."""
EXPORT: Final = "IMPI_EXPORT"
"""Names of the variables that -x gives to procs on all nodes, separated by commas."""
OF_SERVER: Final = "IMPI_OF_SERVER"
"""For a client that its server has started: ``here`` on the server's machine, or ``there``."""
PARENT: Final = "IMPI_PARENT_PORT"
"""For procs started by MPI_Comm_spawn: the port of their parents."""
NAMES: Final = "IMPI_PARENT_NAMES"
"""For the same procs: the parents' server of published names, a space, and its key in hex."""


def port_range(text: str) -> range:
    """Return the ports in ``FIRST-LAST`` or in a single number; an empty range for an empty text.

    Raises:
        UsageError: the text is malformed.
    """

    first, dash, last = text.partition("-")

    ends = [first, last] if dash else [first, first]
    if not text:
        return range(0)

    from impi.base.units import parse_port  # few processes have a range

    # Port 0 means any, so it is not an end of a range: it stands for a wrong text, too.
    numbers = [parse_port(end) or 0 for end in ends]
    if not 1 <= numbers[0] <= numbers[1]:
        raise UsageError(f"{text!r} is not a range of ports, such as 20000-20100")

    return range(numbers[0], numbers[1] + 1)
