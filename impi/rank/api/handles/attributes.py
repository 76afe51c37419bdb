"""Predefined attributes of communicators (MPI 7.7), and the four of IMPI 2.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from impi.protocol.semantics.constants import PROC_NULL
from impi.protocol.semantics.errors import table
from impi.rank.api import runtime
from impi.rank.api.constants import (
    APPNUM,
    HOST,
    IO,
    LASTUSEDCODE,
    TAG_UB,
    UNIVERSE_SIZE,
    WTIME_IS_GLOBAL,
)
from impi.rank.api.handles.keyvals import Keyvals
from impi.rank.engine.context import Context

# Our own keys, below all our other keys: mpi4py has no names for them.
IMPI_CLIENT_SIZE = 0x494D5001
"""Number of clients in the communicator."""
IMPI_CLIENT_COLOR = 0x494D5002
"""The caller's client, counted from 0 among those in the communicator."""
IMPI_HOST_SIZE = 0x494D5003
"""Number of hosts in the communicator."""
IMPI_HOST_COLOR = 0x494D5004
"""The caller's host, counted from 0 among those in the communicator."""

KEYVALS: Final = Keyvals()


class AttributedComm(Protocol):
    """The part of :class:`impi.rank.api.comms.comm.Comm` that this module needs."""

    def _live(self) -> Context: ...

    def Get_rank(self) -> int: ...


def _index(comm: AttributedComm, of_rank: Callable[[int], int]) -> tuple[int, int]:
    """Return the number of different values, and the index of the caller's in world rank order."""
    context = comm._live()
    # IMPI 2.5: relative to the communicator, in the order of MPI_COMM_WORLD.
    values = sorted({of_rank(world) for world in context.members})

    return len(values), values.index(of_rank(runtime.engine().rank))


def _clients(comm: AttributedComm) -> tuple[int, int]:
    procs = runtime.engine().job.procs
    return _index(comm, lambda world: procs[world].client)


def _hosts(comm: AttributedComm) -> tuple[int, int]:
    procs = runtime.engine().job.procs
    return _index(comm, lambda world: procs[world].host)


PREDEFINED: Final[dict[int, Callable[[AttributedComm], Any]]] = {
    TAG_UB: lambda comm: runtime.engine().job.tag_ub,
    HOST: lambda comm: PROC_NULL,
    IO: lambda comm: comm.Get_rank(),
    WTIME_IS_GLOBAL: lambda comm: 0,
    UNIVERSE_SIZE: lambda comm: runtime.engine().ways.home,
    APPNUM: lambda comm: runtime.engine().client,
    LASTUSEDCODE: lambda comm: table.last_used,
    IMPI_CLIENT_SIZE: lambda comm: _clients(comm)[0],
    IMPI_CLIENT_COLOR: lambda comm: _clients(comm)[1],
    IMPI_HOST_SIZE: lambda comm: _hosts(comm)[0],
    IMPI_HOST_COLOR: lambda comm: _hosts(comm)[1],
}
