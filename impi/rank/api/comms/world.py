"""COMM_WORLD and COMM_SELF; importing this module initialises MPI, like mpi4py.MPI.

With ``mpi4py.rc.initialize = False`` the handles exist before MPI does, and Init fills them in.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from impi.protocol.semantics.contexts import COMM_SELF_CID, COMM_WORLD_CID
from impi.protocol.semantics.errors import MPIException
from impi.rank.api import runtime
from impi.rank.api.comms import communicator, ports
from impi.rank.api.comms.comm import Comm
from impi.rank.api.comms.communicator import Communicator
from impi.rank.api.comms.intracomm import COMM_SELF, COMM_WORLD, Intracomm
from impi.rank.api.handles import failing
from impi.rank.api.handles.attributes import KEYVALS
from impi.rank.api.types import pickling
from impi.rank.engine.engine import Engine

__all__ = ["COMM_SELF", "COMM_WORLD"]


def _announced(handle: Intracomm, name: str) -> Communicator:
    """Give a handle its object, which :func:`_set_up` completes."""

    handle._state = state = Communicator()
    state.name = f"MPI_{name}"
    handle._make_constant(name)
    # A pickle names this module, so a process that loads it joins a job.
    handle.__module__ = __name__

    return state


_world = _announced(COMM_WORLD, "COMM_WORLD")
_self = Comm._self = _announced(COMM_SELF, "COMM_SELF")
failing.set_default_owner(_self)


def _delete_attributes() -> None:
    """Delete the attributes of COMM_SELF, last set first, whether or not a delete function fails.

    Those of COMM_WORLD stay: MPI 4.1, 11.2.4 is about COMM_SELF alone.
    """
    deleted = False
    while not deleted:
        # The failed function was told, and its attribute is deleted
        with suppress(MPIException):
            KEYVALS.clear(COMM_SELF, _self.attributes)
            deleted = True


def _set_up(engine: Engine) -> None:
    # MPI_COMM_WORLD has the id 0 in every client (3.3), so nothing is agreed on.
    communicator.make(COMM_WORLD_CID, range(len(engine.job.procs)), made=_world)
    communicator.make(COMM_SELF_CID, [engine.rank], made=_self)

    runtime.hooks.final_barrier = COMM_WORLD._leave
    if engine.job.verify:
        from impi.rank.api.comms import verifier  # the other jobs need not load it

        verifier.install(engine.job.verify)
        runtime.hooks.final_barrier = partial(verifier.leave, COMM_WORLD)

    parents = ports.parents(_world)
    if parents is not None:
        parents.name = "MPI_COMM_PARENT"
        Comm._parent = Comm._handle(parents)

    runtime.hooks.before_finalize = _delete_attributes


pickling.read_environment()
runtime.start(_set_up)
