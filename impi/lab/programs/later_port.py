"""A port is open from Open_port to Close_port, and closed then."""

import socket

from begun import report  # type: ignore[import-not-found]
from mpi4py import MPI


def is_open(name: str) -> bool:
    """Whether anybody listens at a port."""
    host, port = name.removeprefix("impi:").rpartition(":")[0].rsplit(":", 1)
    try:
        socket.create_connection((host.strip("[]"), int(port)), 5).close()
    except ConnectionRefusedError:
        return False

    return True


name = MPI.Open_port()
report.check("an open port", is_open(name), True)
MPI.Close_port(name)
report.check("a closed port", is_open(name), False)
report.done()
