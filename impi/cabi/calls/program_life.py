"""The life of a program in C: MPI_Init, MPI_Finalize, MPI_Abort, and an end without them."""

from __future__ import annotations

import os
import sys
from typing import Final, NoReturn

from impi.cabi.calls import front_side
from impi.cabi.objects import link
from impi.cabi.objects.abi_constants import THREAD_LEVELS
from impi.cabi.objects.handle_tables import known_world
from impi.cabi.objects.link import MPI, Object, lib
from impi.cabi.objects.program_memory import agreed
from impi.rank.api import rc, runtime
from impi.rank.api.handles.failing import ErrorHandler, Owner, set_default_owner
from impi.rank.engine.channels.threads import expect_threads

_ACTIVE: Final = 1
_FINALIZED: Final = 2
_sessions: Final[set[int]] = set()  # sessions that have not ended: the identities of their states


class _AnyOwner:
    """Handles failures of calls without an object: as COMM_SELF's (MPI 4.1, 9.3), or COMM_WORLD's.

    That was COMM_WORLD's before MPI 4, and programs and libraries still count on it.
    """

    def __init__(self) -> None:
        self._owners: Final[tuple[Owner, ...]] = (MPI.COMM_SELF._owner, MPI.COMM_WORLD._owner)

    @property
    def _chosen(self) -> Owner:
        return next((owner for owner in self._owners if not owner.errhandler._is_fatal()), self._owners[0])

    @property
    def errhandler(self) -> ErrorHandler:
        return self._chosen.errhandler

    def new_handle(self) -> Object:
        return self._chosen.new_handle()


runtime.hooks.flush = lib.impi_flush


def _finalizes() -> bool:
    return rc.read(os.environ, sys.modules.get("mpi4py.rc")).finalize


def initialize(required: int) -> int:
    """Initialise MPI; return the provided thread level."""
    level: int = MPI.Init_thread(required)
    if level == MPI.THREAD_MULTIPLE:
        expect_threads()
    set_default_owner(_AnyOwner())
    active()
    return level


def active() -> None:
    """Tell C that MPI is initialised, by this library or by a program in Python around it."""
    level = runtime.thread_level()
    lib.impi_now(_ACTIVE, THREAD_LEVELS.reverse.get(level, level))
    _joined()


def _joined() -> None:
    known_world()
    agreed()
    if link.front:
        front_side.begin()


def finalize() -> None:
    """Finalise MPI."""
    MPI.Finalize()
    lib.impi_now(_FINALIZED, 0)


# mpi4py's own end comes when Python is gone.
runtime.hooks.end = _finalizes, finalize


def session(info: Object, errhandler: Object) -> Object:
    """Begin a session (MPI_Session_init): before MPI_Init, too, and then the job is joined here."""
    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_SERIALIZED)
        set_default_owner(_AnyOwner())
        lib.impi_join()
        _joined()
    begun = MPI.Session.Init(info, errhandler)
    _sessions.add(id(begun._state))
    return begun


def end_session(begun: Object) -> None:
    """End a session (MPI_Session_finalize); other sessions and MPI_Init may follow."""
    _sessions.discard(id(begun._state))
    begun.Finalize()


def abort(comm: Object, code: int) -> NoReturn:
    """End the job (MPI_Abort)."""
    comm.Abort(code)
    raise AssertionError("MPI_Abort has returned")


def left(status: int) -> int:
    """Leave the job of a program that ends, if it has used sessions alone and ended them.

    Without that or MPI_Finalize the job ends: the others would wait.
    """
    if not _sessions and not lib.impi_active():
        if not MPI.Is_finalized():
            MPI.Finalize()
        return 0
    rank = MPI.COMM_WORLD.Get_rank()
    sys.stderr.write(f"impi: rank {rank} ended with {status} without MPI_Finalize\n")
    runtime.abort(status or 1)
    raise AssertionError("abort has returned")
