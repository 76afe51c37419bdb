"""The table of collectives on buffers: the name of each, and the method that reads its buffers.

``Bcast``, ``Ibcast`` and ``Bcast_init`` are three forms of one collective. All three read the
buffers by the same method, :meth:`.BufferOperations._bcast`, which returns a starter. They differ
in how often they call the starter, and in whether they wait. The collectives of neighbourhoods are
in :mod:`.neighborhood`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from impi.rank.api.collective.on_buffers import BufferOperations, Start

Read: TypeAlias = Callable[..., Start]
"""Reads the buffers of a call: takes the communicator and MPI's arguments, without ``info``."""


class Collective:
    """A collective on buffers, in its three forms.

    The three attributes are one method, until a verification of calls puts its own in their place
    (:mod:`impi.rank.api.comms.verifier`). Calls without verification pay nothing for that.

    Args:
        name: the blocking form's, without ``MPI_``.
        read: the method that reads the buffers.
    """

    def __init__(self, name: str, read: Read) -> None:
        self.name = name
        self.blocking = self.nonblocking = self.persistent = read


BARRIER: Final = Collective("Barrier", BufferOperations._barrier)
BCAST: Final = Collective("Bcast", BufferOperations._bcast)
GATHER: Final = Collective("Gather", BufferOperations._gather)
GATHERV: Final = Collective("Gatherv", BufferOperations._gatherv)
SCATTER: Final = Collective("Scatter", BufferOperations._scatter)
SCATTERV: Final = Collective("Scatterv", BufferOperations._scatterv)
ALLGATHER: Final = Collective("Allgather", BufferOperations._allgather)
ALLGATHERV: Final = Collective("Allgatherv", BufferOperations._allgatherv)
ALLTOALL: Final = Collective("Alltoall", BufferOperations._alltoall)
ALLTOALLV: Final = Collective("Alltoallv", BufferOperations._alltoallv)
ALLTOALLW: Final = Collective("Alltoallw", BufferOperations._alltoallw)
REDUCE: Final = Collective("Reduce", BufferOperations._reduce)
ALLREDUCE: Final = Collective("Allreduce", BufferOperations._allreduce)
REDUCE_SCATTER_BLOCK: Final = Collective(
    "Reduce_scatter_block", BufferOperations._reduce_scatter_block
)
REDUCE_SCATTER: Final = Collective("Reduce_scatter", BufferOperations._reduce_scatter)
SCAN: Final = Collective("Scan", BufferOperations._scan)
EXSCAN: Final = Collective("Exscan", BufferOperations._exscan)

Blocking: TypeAlias = Callable[..., None]
"""Runs a blocking collective to its end: takes the communicator and MPI's arguments."""

Strategy: TypeAlias = dict[Collective, Blocking]
"""The functions by which a communicator runs its blocking collectives."""
