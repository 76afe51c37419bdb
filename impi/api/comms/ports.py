"""Ports of a job, and the way from a job that was spawned to its parents.

What they are made of is :mod:`.dynamic`, which few programs need.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from impi.api import runtime
from impi.api.handles.info import INFO_NULL, Info
from impi.variables import PARENT

if TYPE_CHECKING:
    from impi.api.comms.communicator import Communicator

__all__ = ["Close_port", "Open_port"]


def Open_port(info: Info = INFO_NULL) -> str:
    """Return the name of a new port at this process, for :meth:`Intracomm.Accept`.

    The name has a secret: whoever knows it can connect, nobody else.
    """
    from impi.api.comms import dynamic

    runtime.engine()
    return dynamic.open_port()


def Close_port(port_name: str) -> None:
    """Close a port; Exception ERR_PORT: it is not open."""
    from impi.api.comms import dynamic

    runtime.engine()
    dynamic.close_port(port_name)


def parents(world: Communicator) -> Communicator | None:
    """Connect all processes of a job that was spawned to its parents; None: it was not."""
    name = os.environ.pop(PARENT, "")
    if not name:
        return None
    from impi.api.comms import dynamic

    return dynamic.connect(world, name, 0)
