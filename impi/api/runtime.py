"""The state of this process as a member of a job: one engine, from the first import of MPI to Finalize."""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn

from impi.engine.bootstrap import join_job
from impi.engine.engine import Engine
from impi.errors import ImpiError
from impi.semantics.contexts import ContextIds
from impi.semantics.errors import MPIException, error

if TYPE_CHECKING:
    from impi.engine.progress_thread import ProgressThread

__all__ = [
    "State",
    "abort",
    "abort_on_error",
    "contexts",
    "engine",
    "external",
    "fail",
    "finalize",
    "finalized",
    "initialize",
    "progress_thread",
    "set_final_barrier",
]


class State:
    """What there is one of."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.final_barrier: Callable[[], None] | None = None
        self.contexts = ContextIds()
        self.finalized = False
        self.exit_code = 0
        self.thread: ProgressThread | None = None


_state = State()

_GRACE_S = 3.0


def initialize() -> None:
    """MPI_Init: join the job, or be a job of one proc. Called by the first import of MPI; a second call does nothing.

    A process that cannot join says why in one sentence and exits with status 1: there is no job to go on with.
    """
    if _state.engine is not None or _state.finalized:
        return
    try:
        _state.engine = join_job()
    except ImpiError as failure:
        _say(f"impi: {failure}")
        os._exit(1)
    atexit.register(_at_exit)
    sys.excepthook = _abort_on_exception
    sys.exit = _exit


def engine() -> Engine:
    """The engine; an Exception before initialisation and after Finalize."""
    if _state.engine is None or _state.finalized:
        raise error(
            "ERR_OTHER", "MPI is not active: it was finalized" if _state.finalized else "MPI is not initialized"
        )
    return _state.engine


def progress_thread() -> ProgressThread:
    """The helper for blocking calls of the MPI library; made when it is asked for first."""
    if _state.thread is None:
        from impi.engine.progress_thread import ProgressThread  # only ranks with an MPI library load it

        _state.thread = ProgressThread(engine(), _failed_in_helper)
    return _state.thread


def _failed_in_helper(failure: Exception) -> None:
    """The program's thread is in the library and cannot be told: the job ends."""
    if isinstance(failure, ImpiError | MPIException):
        fail(failure)
    _abort_on_exception(type(failure), failure, failure.__traceback__)


def external() -> bool:
    """Whether this job's clients send each other external32; True, too, where there is no job."""
    return _state.engine is None or _state.engine.external


def contexts() -> ContextIds:
    """The context ids of this proc (IMPI 4.3.1)."""
    return _state.contexts


def finalized() -> bool:
    """Whether Finalize has been called."""
    return _state.finalized


def finalize() -> None:
    """MPI_Finalize (IMPI 2.4, 4.24): barrier on MPI_COMM_WORLD, FINI on every channel, then the vendor's own."""
    if _state.finalized or _state.engine is None:
        return
    running = _state.engine
    try:
        _barrier()
        running.shutdown()
    except (ImpiError, MPIException) as failure:
        fail(failure)
    _state.finalized = True
    running.vendor.finalize()


def set_final_barrier(barrier: Callable[[], None]) -> None:
    """Let :func:`finalize` begin with ``barrier``, the one of :mod:`impi.api.comms.world`."""
    _state.final_barrier = barrier


def _barrier() -> None:
    """The barrier of Finalize; where an earlier collective has failed at another proc, none can be waited for."""
    if _state.final_barrier is None:
        return
    try:
        _state.final_barrier()
    except MPIException as failure:
        if not failure.told:
            raise


def _exit(status: object = None, /) -> NoReturn:
    """``sys.exit``, remembering the status: an interpreter that ends tells its exit functions nothing about it."""
    _state.exit_code = status if isinstance(status, int) else int(status is not None)
    raise SystemExit(status)


def _at_exit() -> None:
    """The program ends without Finalize: do it now, unless it has failed; then the others must not wait for it."""
    if _state.exit_code and not _state.finalized:
        abort(_state.exit_code)
    finalize()


def abort(code: int) -> NoReturn:
    """MPI_Abort: end every proc of this client at once; impirun and the server end the others."""
    sys.stdout.flush()
    sys.stderr.flush()
    if _state.engine is not None:
        _state.engine.vendor.abort(code)
    os._exit(code)


def abort_on_error(failure: MPIException, code: int = 1, more: str = "") -> NoReturn:
    """An error that ends the job: say which, and end this client with exit code ``code`` (1 where it cannot be one)."""
    _say(f"impi: rank {_rank()} ends the job: {failure.call or 'MPI'} failed: {failure}{more}")
    if failure.told:
        time.sleep(_GRACE_S)  # as in fail(): let the one whose error it is be named first
    abort(code if 0 < code < 256 else 1)


def _rank() -> int | str:
    return _state.engine.rank if _state.engine is not None else "?"


def _say(sentence: str) -> None:
    """In one piece: other procs write to the same place."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()


def fail(failure: ImpiError | MPIException) -> NoReturn:
    """The job cannot go on: say why, end this client."""
    _say(f"impi: rank {_rank()}: {failure}")
    # Whoever was lost is about to be noticed by its own impirun, which tells the server, which ends all clients: then
    # the right one is named. Ending at once would make this client look like the one that was lost first.
    time.sleep(_GRACE_S)
    abort(1)


def _abort_on_exception(kind: type[BaseException], value: BaseException, trace: TracebackType | None) -> None:
    """An uncaught exception in one proc ends the job: the others would wait for it for ever."""
    if isinstance(value, ImpiError):
        fail(value)
    import traceback

    traceback.print_exception(kind, value, trace)
    if _state.finalized or _state.engine is None:
        return
    if isinstance(value, MPIException):
        abort_on_error(value)
    if issubclass(kind, KeyboardInterrupt):
        abort(130)
    _say(f"impi: rank {_rank()} ends the job: uncaught {kind.__name__}")
    abort(1)
