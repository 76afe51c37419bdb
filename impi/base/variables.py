"""Names of environment variables that impirun and the judges both know, and the form of one."""

from typing import Final

from impi.base.errors import UsageError

PREFIX: Final = "IMPI_PREFIX_"
"""With a vendor's name in capitals at its end: where its library is installed."""
HANDLES_FROM: Final = "IMPI_HANDLES_FROM"
"""For the hook: Python's version, mpi4py's extension, and our library under each of its names."""
STANDS_IN: Final = "IMPI_STANDS_IN"
"""The ABI whose library is ours in this process, under the name of a vendor's."""
BEHIND: Final = "IMPI_BEHIND"
"""The client's own library, which ours may stand before in a program behind a script."""
USHERED: Final = "IMPI_USHERED"
"""Process id of a program behind a script that has begun anew, to have our library."""
PRELOAD: Final = "IMPI_PRELOAD"
"""What such a program had in LD_PRELOAD, while Python begins it anew."""
VENDORS: Final = "IMPI_VENDORS"
"""A folder of vendors' folders, in place of ``images/`` and those of the user."""
PORTS: Final = "IMPI_PORTS"
"""Where to listen for other clients: --ports of impirun, for its hosts."""
RELAY: Final = "IMPI_RELAY"
"""Where hosts of a client take the connections of others: --relay of impirun."""
EXPORT: Final = "IMPI_EXPORT"
"""Names of variables that the user gives to procs on all nodes (-x), with commas."""
PARENT: Final = "IMPI_PARENT_PORT"
"""For procs that others have started by MPI_Comm_spawn: the port of these."""
NAMES: Final = "IMPI_PARENT_NAMES"
"""Likewise: the server of their published names, a space, and its key in hexadecimal."""


def port_range(text: str) -> range:
    """Return the ports of ``FIRST-LAST``, or of a single number; empty: any free one.

    Raises:
        UsageError: malformed.
    """
    first, dash, last = text.partition("-")
    ends = [first, last] if dash else [first, first]
    if not text:
        return range(0)
    from impi.base.units import parse_port  # few processes have a range

    numbers = [parse_port(end) or 0 for end in ends]
    if not 1 <= numbers[0] <= numbers[1]:
        raise UsageError(f"{text!r} is no range of ports, such as 20000-20100")
    return range(numbers[0], numbers[1] + 1)
