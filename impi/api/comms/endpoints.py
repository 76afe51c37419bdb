"""Endpoints: several ranks of one process, each for a thread (after MPI_Comm_create_endpoints).

A communicator of endpoints is a set of LCOs that refer to each other like ranks: their ranks follow
the parent's, consecutive inside a process. Each handle is used by one thread at a time. Point-to-
point and collective calls of several threads may block at once, as waits let each other into the
engine (:mod:`impi.engine.shared_engine`). A collective is called once for each endpoint.

An operation goes on when a call is made on any communicator of the process.
"""

from __future__ import annotations

from typing import Self

from impi.api import runtime
from impi.api.comms.comm import Comm
from impi.api.comms.intracomm import Intracomm
from impi.api.comms.lco import Lco
from impi.engine.shared_engine import share
from impi.semantics.errors import error


class Endpoint(Lco):
    """One rank of a communicator of endpoints."""

    @classmethod
    def _made(cls) -> Self:
        made = super()._made()
        made._alive().special = "endpoint"
        return made

    def Get_size(self) -> int:
        """Return the number of endpoints, of all processes."""
        return len(self._lco.lco.send_slots)

    def Get_rank(self) -> int:
        """Return the rank of this endpoint."""
        return self._algorithms.rank

    size = property(Get_size, doc="number of endpoints")
    rank = property(Get_rank, doc="rank of this endpoint")


def create(parent: Intracomm, num_ep: int) -> list[Endpoint]:
    """Return ``num_ep`` endpoints of this process; collective over the parent.

    Raises:
        Exception: ERR_ARG: a negative number. ERR_UNSUPPORTED_OPERATION: a client has IMPI 0.0.
    """
    if num_ep < 0:
        raise error("ERR_ARG", f"{num_ep} endpoints cannot be made")
    mine = [Endpoint._made() for _ in range(num_ep)]
    parts = parent.allgather([endpoint.Get_lco_name() for endpoint in mine])
    first = sum(len(part) for part in parts[: parent.Get_rank()])
    names = [name for part in parts for name in part]
    for rank, endpoint in enumerate(mine, first):
        endpoint.Add_receive_slots(len(names))
        endpoint.Add_send_slots(names, [rank] * len(names))
    parent.Barrier()
    share(runtime.engine())
    return mine


Comm._kinds["endpoint"] = Endpoint
