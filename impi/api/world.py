"""COMM_WORLD and COMM_SELF: importing this module initialises MPI, as importing mpi4py.MPI does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from impi.api import communicator, runtime, window
from impi.api.intracomm import Intracomm
from impi.semantics.contexts import COMM_SELF_CID, COMM_WORLD_CID

__all__ = ["COMM_SELF", "COMM_WORLD"]

runtime.initialize()


def _constant(name: str, cid: int, members: Sequence[int]) -> Intracomm:
    state = communicator.make(cid, members)
    state.name = f"MPI_{name}"
    return Intracomm._define(name, state)


_engine = runtime.engine()
COMM_WORLD: Final = _constant("COMM_WORLD", COMM_WORLD_CID, range(len(_engine.job.procs)))
COMM_SELF: Final = _constant("COMM_SELF", COMM_SELF_CID, [_engine.rank])
window.SELF._state = COMM_SELF._state

if _engine.job.verify:
    from impi.api import verification

    verification.install(_engine.job.verify)
