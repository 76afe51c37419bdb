"""The life of a program in C: MPI_Init, MPI_Finalize, MPI_Abort, and an end without them.

C keeps the state (``impi_state`` in ``start.c``), because MPI_Initialized and MPI_Finalized may be
called when there is no Python yet or no longer. :func:`active` and :func:`finalize` set it. The
process's exit calls :func:`left`: a program that ends without MPI_Finalize ends the job, since the
other ranks would wait for it forever.
"""

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
# Sessions that have not ended, by the identity of their states
_sessions: Final[set[int]] = set()


class _AnyOwner:
    """Handles errors of calls without an object: by COMM_SELF's handler (MPI 4.1, 9.3).

    Before MPI 4 that was COMM_WORLD's handler, and programs and libraries still rely on it. So
    COMM_WORLD's is called if only that one was changed.
    """

    def __init__(self) -> None:
        self._owners: Final[tuple[Owner, ...]] = (
            MPI.COMM_SELF._owner,
            MPI.COMM_WORLD._owner,
        )

    @property
    def _chosen(self) -> Owner:
        return next(
            (owner for owner in self._owners if not owner.errhandler._is_fatal()),
            self._owners[0],
        )

    @property
    def errhandler(self) -> ErrorHandler:
        return self._chosen.errhandler

    def new_handle(self) -> Object:
        return self._chosen.new_handle()


# An abort must not lose the output that C still buffers
runtime.hooks.flush = lib.impi_flush


def _finalizes() -> bool:
    return rc.read(os.environ, sys.modules.get("mpi4py.rc")).finalize


def initialize(required: int) -> int:
    """Initialise MPI and return the provided thread level."""

    level: int = MPI.Init_thread(required)
    # Python counts its own threads; those of a C program come without notice.
    if level == MPI.THREAD_MULTIPLE:
        expect_threads()

    set_default_owner(_AnyOwner())
    active()

    return level


def active() -> None:
    """Tell C that MPI is initialised, by this library or by the Python program that loaded it."""
    level = runtime.thread_level()
    lib.impi_now(_ACTIVE, THREAD_LEVELS.reverse.get(level, level))
    _joined()


def _joined() -> None:
    known_world()

    agreed()
    if link.front:
        front_side.begin()


def finalize() -> None:
    """Finalise MPI, and tell C so."""
    MPI.Finalize()
    lib.impi_now(_FINALIZED, 0)


# With --handles mpi4py finalises MPI at exit, when Python is gone. So the hook does that earlier.
runtime.hooks.end = _finalizes, finalize


def session(info: Object, errhandler: Object) -> Object:
    """Begin a session (MPI_Session_init); without MPI_Init before it, this joins the job."""

    if not MPI.Is_initialized():
        MPI.Init_thread(MPI.THREAD_SERIALIZED)
        set_default_owner(_AnyOwner())
        # To MPI_Initialized nothing has happened. C notes apart that this
        # process has to leave a job in order.
        lib.impi_join()
        _joined()

    begun = MPI.Session.Init(info, errhandler)
    _sessions.add(id(begun._state))

    return begun


def end_session(begun: Object) -> None:
    """End a session (MPI_Session_finalize).

    The job goes on even if it was the last one: other sessions and MPI_Init may follow.
    """
    _sessions.discard(id(begun._state))
    begun.Finalize()


def abort(comm: Object, code: int) -> NoReturn:
    """End the job (MPI_Abort)."""
    comm.Abort(code)
    raise AssertionError("MPI_Abort has returned")


def left(status: int) -> int:
    """Finalise MPI at exit if the program used sessions only and ended them; else end the job.

    Args:
        status: the program's exit code; the job's code is that, or 1 if it is 0.
    """

    if not _sessions and not lib.impi_active():
        if not MPI.Is_finalized():
            MPI.Finalize()

        return 0

    rank = MPI.COMM_WORLD.Get_rank()
    sys.stderr.write(f"impi: rank {rank} ended with {status} without MPI_Finalize\n")
    runtime.abort(status or 1)
    raise AssertionError("abort has returned")
