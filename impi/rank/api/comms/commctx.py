"""Helpers for mpi4py's utilities (``mpi4py.util.pkl5``): locks, and a duplicate with tags."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Any

from impi.rank.api import runtime
from impi.rank.api.comms import communicator
from impi.rank.api.comms.comm import Comm
from impi.rank.api.comms.intercomm import Intercomm
from impi.rank.api.comms.intracomm import COMM_WORLD, Intracomm


def _comm_lock_table(comm: Comm) -> dict[Hashable, Lock]:
    return comm._alive().locks


def _comm_lock(comm: Comm, key: Hashable | None = None) -> Lock:
    return comm._alive().lock(key)


def _commctx_intra(comm: Intracomm) -> tuple[Intracomm, int]:
    """Return a duplicate, created once, and a tag that changes at every call; collective."""
    duplicate, _, tag = _companions(comm)
    return (duplicate, tag)


def _commctx_inter(comm: Intercomm) -> tuple[Intercomm, int, Intracomm, bool]:
    """Return duplicate, tag, a local communicator, and whether its group is the lower one."""
    duplicate, local, tag = _companions(comm)
    context = comm._live()

    return (duplicate, tag, local, context.members[0] < context.peers[0])


def _companions(comm: Comm) -> tuple[Any, Any, int]:
    state, context = comm._alive(), comm._live()

    companions = state.companions
    if not companions.made:
        companions.made.append(communicator.duplicate(state))
        if state.is_inter:
            local = communicator.create_group(
                COMM_WORLD._live(), context.members, companions.made[0].live().cid
            )
            assert local is not None, "each member of a group has its communicator"
            companions.made.append(local)

    tag = companions.next_tag
    companions.next_tag = (tag + 1) % (runtime.engine().job.tag_ub + 1)
    duplicate, local_comm = (
        *(Comm._handle(companion) for companion in companions.made),
        None,
    )[:2]

    return (duplicate, local_comm, tag)
