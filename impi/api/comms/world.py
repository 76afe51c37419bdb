"""COMM_WORLD and COMM_SELF; importing this module initialises MPI, like mpi4py.MPI."""

from __future__ import annotations

from collections.abc import Sequence

from impi.api import runtime
from impi.api.comms import communicator
from impi.api.comms.communicator import Communicator
from impi.api.comms.intracomm import COMM_SELF, COMM_WORLD, Intracomm
from impi.api.handles import failing
from impi.semantics.contexts import COMM_SELF_CID, COMM_WORLD_CID

__all__ = ["COMM_SELF", "COMM_WORLD"]

runtime.initialize()


def _give(handle: Intracomm, name: str, cid: int, members: Sequence[int]) -> Communicator:
    handle._state = state = communicator.make(cid, members)
    state.name = f"MPI_{name}"
    handle._make_constant(name)
    # A pickle names this module, so a process that loads it joins a job.
    handle.__module__ = __name__
    return state


_engine = runtime.engine()
_give(COMM_WORLD, "COMM_WORLD", COMM_WORLD_CID, range(len(_engine.job.procs)))
failing.set_default_owner(_give(COMM_SELF, "COMM_SELF", COMM_SELF_CID, [_engine.rank]))

if _engine.job.verify:
    from impi.api.comms import verifier

    verifier.install(_engine.job.verify)

# Last, because the verification wraps the method.
runtime.set_final_barrier(COMM_WORLD._leave)
