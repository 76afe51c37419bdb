"""COMM_WORLD and COMM_SELF: importing this module initialises MPI, as importing mpi4py.MPI does."""

from __future__ import annotations

from impi.api import runtime
from impi.api.comm import Intracomm
from impi.semantics.contexts import COMM_SELF_CID, COMM_WORLD_CID

__all__ = ["COMM_SELF", "COMM_WORLD"]

runtime.initialize()

_engine = runtime.engine()
COMM_WORLD = Intracomm._of(_engine.make_context(COMM_WORLD_CID, range(len(_engine.job.procs))))
COMM_WORLD.Set_name("MPI_COMM_WORLD")
COMM_SELF = Intracomm._of(_engine.make_context(COMM_SELF_CID, [_engine.rank]))
COMM_SELF.Set_name("MPI_COMM_SELF")
