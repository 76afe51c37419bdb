"""Facts about every container node: its user, its SSH port and the place of impi's sources."""

from __future__ import annotations

from typing import Final

USER: Final = "mpi"
UID: Final = 1000
HOME: Final = "/home/mpi"
SOURCES: Final = "/opt/impi/src"
SSH_PORT: Final = 2222
