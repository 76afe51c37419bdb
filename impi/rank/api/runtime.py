"""The state of this process in a job: one engine, from the import of MPI (or Init) to Finalize.

How it works: :func:`initialize` joins the job and takes over the interpreter's hooks for uncaught
exceptions and for ``sys.exit``. :func:`leave`, an exit function, finalizes or aborts. Every way out
of the program ends in one of the two, because the other procs would wait for this one for ever.

The order of sentences matters as much. A user reads the first one, so it must name the cause: a
proc that only notices the loss of another waits some seconds before it speaks or ends.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, NoReturn

from impi.base.errors import ImpiError, JobError
from impi.base.exit_codes import ExitCode
from impi.protocol.semantics.contexts import ContextIds
from impi.protocol.semantics.errors import LackingError, MPIException, error
from impi.rank.api.rc import LEVELS, choices
from impi.rank.engine.engine import Engine
from impi.rank.engine.job.bootstrap import alarm, described, join_job

if TYPE_CHECKING:
    from impi.rank.engine.job.progress_thread import ProgressThread


class Hooks:
    """Functions of other modules that are called here; each may be set anew."""

    # finalize() begins with it, while all of MPI can be used
    before_finalize: Callable[[], None] | None = None
    # The barrier of finalize() (impi.rank.api.comms.world)
    final_barrier: Callable[[], None] | None = None
    # Writes what a program in C has printed, for abort() (impi.cabi)
    flush: Callable[[], None] | None = None
    # leave() finalizes by the second if the first returns true (impi.cabi).
    end: tuple[Callable[[], bool], Callable[[], None]] | None = None
    # Name the call that impi lacks: mpi4py's own NotImplementedError does not (impi.cabi)
    lacking = ""


class RuntimeState:
    """The one set of objects of this process."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.set_up: Callable[[Engine], None] | None = None
        self.thread_level = 0
        self.thread_ident = 0
        self.contexts = ContextIds(threading.Lock())
        self.finalized = False
        self.exit_code = 0
        self.thread: ProgressThread | None = None


_state = RuntimeState()
hooks: Final = Hooks()

# Seconds in which the impirun of a lost proc names it, before others speak
_GRACE_S = 3.0


def start(set_up: Callable[[Engine], None]) -> None:
    """Initialize MPI at its import, unless the program has chosen to do that itself.

    Args:
        set_up: called by :func:`initialize` for all that needs an engine.
    """
    _state.set_up = set_up
    # The hook calls leave() itself, after all that the program has left for its exit.
    if not any(getattr(finder, "finalizes_mpi", False) for finder in sys.meta_path):
        atexit.register(leave)

    if choices().initialize:
        initialize(choices().thread_level)


def initialize(thread_level: int) -> None:
    """Join the job, or become a job of one proc (MPI_Init); a second call does nothing.

    If it fails, the process prints why and exits with 1.
    """

    if _state.engine is not None:
        return

    try:
        _state.engine = join_job()
    except ImpiError as failure:
        if isinstance(failure, JobError):
            # As in fail(): a proc that cannot reach a lost one is not the lost one
            time.sleep(_GRACE_S)

        _say(f"impi: {failure}")
        os._exit(1)
    except (OSError, MemoryError) as failure:
        if not (lack := _exhausted(failure)):
            raise

        _say(f"impi: this process cannot join the job: {lack}")
        os._exit(1)

    # A client of IMPI 0.0 would take a drawn id for its new maximum (4.3.1).
    if _state.engine.job.is_ours:
        _state.contexts.draw = _drawn

    _state.thread_level = min(thread_level, LEVELS.index(most_threads()))
    _state.thread_ident = threading.get_ident()
    # However the program ends, its exit code and exception must reach leave() or end the job.
    sys.excepthook = _abort_on_exception
    threading.excepthook = partial(_thread_ended, threading.excepthook)

    sys.exit = _exit
    if _state.set_up is not None:
        _state.set_up(_state.engine)


def _drawn(bits: int) -> int:
    return int.from_bytes(os.urandom(8)) >> (64 - bits)


def engine() -> Engine:
    """Return the engine; Exception before initialisation and after Finalize."""
    if _state.engine is None or _state.finalized:
        raise error(
            "ERR_OTHER",
            "MPI is not active: it was finalized"
            if _state.finalized
            else "MPI is not initialized",
        )

    return _state.engine


def progress_thread() -> ProgressThread:
    """Return the helper for blocking calls of the MPI library; created on demand."""
    if _state.thread is None:
        # Only ranks with a library need it
        from impi.rank.engine.job.progress_thread import ProgressThread

        _state.thread = ProgressThread(engine(), _failed_in_helper)

    return _state.thread


def _failed_in_helper(failure: Exception) -> None:
    """End the job: the program's thread is in the library and cannot raise."""
    if isinstance(failure, ImpiError | MPIException):
        fail(failure)

    _abort_on_exception(type(failure), failure, failure.__traceback__)


def running() -> Engine | None:
    """Return the engine, or None before initialisation."""
    return _state.engine


def external() -> bool:
    """Return whether clients send each other external32; True without a job, too."""
    return _state.engine is None or _state.engine.external


def contexts() -> ContextIds:
    """Return the context ids of this proc (IMPI 4.3.1)."""
    return _state.contexts


def initialized() -> bool:
    """Return whether MPI was initialized; it stays so after Finalize."""
    return _state.engine is not None


def finalized() -> bool:
    """Return whether Finalize was called."""
    return _state.finalized


def most_threads() -> str:
    """Return the highest thread level, as in ``mpi4py.rc``; see :func:`thread_level`."""
    native = engine().vendor.world.native
    return (
        "multiple"
        if engine().job.is_ours and (native is None or native.multiple)
        else "serialized"
    )


def thread_level() -> int:
    """Return the provided thread level: the requested one, up to THREAD_MULTIPLE.

    At most THREAD_SERIALIZED if a client has IMPI 0.0, which lets no two threads agree on context
    ids at the same time, or if the library below has not got THREAD_MULTIPLE.
    """
    engine()
    return _state.thread_level


def thread_ident() -> int:
    """Return the identifier of the thread that has initialized MPI."""
    engine()
    return _state.thread_ident


def description() -> dict[str, str]:
    """Return name, version and file of the library below, at any time."""
    return described() if _state.engine is None else _state.engine.vendor.describe()


def finalize() -> None:
    """Finalize (IMPI 2.4, 4.24): barrier on MPI_COMM_WORLD, FINI on every channel, vendor.

    Before that come the functions that the program has left for it (MPI 4.1, 11.2.4).
    """

    if _state.finalized or _state.engine is None:
        return

    running = _state.engine
    if hooks.before_finalize is not None:
        hooks.before_finalize()

    try:
        _barrier()
        running.shutdown()
    except (ImpiError, MPIException) as failure:
        fail(failure)

    # 2.4: FINI comes before the library's end, which may wait for all procs of this client. The
    # state says so first: from here on no call of MPI is right.
    _state.finalized = True
    running.vendor.finalize()


def _barrier() -> None:
    """Run the barrier of Finalize; give up if another proc has failed before."""
    if hooks.final_barrier is None:
        return

    # A failure that another proc has reported is that proc's to raise: this one leaves in order.
    try:
        hooks.final_barrier()
    except MPIException as failure:
        if not failure.told:
            raise


def _exit(status: object = None, /) -> NoReturn:
    """``sys.exit`` that stores the status: exit functions of the interpreter do not get it."""
    _state.exit_code = status if isinstance(status, int) else int(status is not None)
    raise SystemExit(status)


def set_abort_status(status: int) -> None:
    """Store the exit code of a program that failed: :func:`leave` aborts the job with it."""
    _state.exit_code = status


def leave(before: Callable[[], None] | None = None) -> None:
    """Finalize at the end of the program; if it failed, abort: the others must not wait.

    An exit function, called once: by the hook, after all of the program, or else by ``atexit``.
    ``before`` is called if MPI is finalized here.
    """

    if _state.engine is None or _state.finalized:
        return

    if _state.exit_code:
        abort(_state.exit_code)

    chosen, ending = hooks.end or (lambda: choices().finalize, finalize)
    if not chosen():
        _say(
            f"impi: rank {_rank()} ended without MPI.Finalize(), which the options in mpi4py.rc leave to the program"
        )
        abort(1)

    try:
        if isinstance(interrupt := getattr(sys, "last_value", None), KeyboardInterrupt):
            # A second Ctrl-C has ended the exception hook before it could begin
            raise interrupt

        if before is not None:
            before()

        if not _state.finalized:
            ending()
    except KeyboardInterrupt as caught:
        # An exit function cannot raise it: the proc would end with 0, and no proc would learn of
        # it.
        _abort_on_exception(KeyboardInterrupt, caught, caught.__traceback__)
        os._exit(ExitCode.SIGINT)


def abort(code: int) -> NoReturn:
    """End every proc of this client (MPI_Abort); impirun and the server end the others."""

    # os._exit() writes no buffers, and neither does the end that a library makes.
    sys.stdout.flush()

    sys.stderr.flush()
    if hooks.flush is not None:
        hooks.flush()

    if _state.engine is not None:
        _state.engine.vendor.abort(code)

    os._exit(code)


def abort_on_error(failure: MPIException, code: int = 1, more: str = "") -> NoReturn:
    """End this client after an error, with exit code ``code`` (1 if that is not a valid one)."""
    _say(
        f"impi: rank {_rank()} ends the job: {failure.call or 'MPI'} failed: {failure}{more}"
    )
    if failure.told:
        time.sleep(_GRACE_S)  # see fail(): the cause is named first

    abort(code if 0 < code < 256 else 1)


def _rank() -> int | str:
    return _state.engine.rank if _state.engine is not None else "?"


def _say(sentence: str) -> None:
    """Print in one write: other procs share the stream."""
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()


def fail(failure: ImpiError | MPIException) -> NoReturn:
    """Print why the job cannot go on, and end this client."""
    # The impirun of a lost proc notices it and tells the server, which ends all clients with the
    # reason. If we ended or spoke at once, this client would look like the lost one.
    if isinstance(failure, JobError):
        alarm()
        time.sleep(_GRACE_S)
        _say(f"impi: rank {_rank()}: {failure}")
    else:
        _say(f"impi: rank {_rank()}: {failure}")
        time.sleep(_GRACE_S)

    abort(1)


def _abort_on_exception(
    kind: type[BaseException], value: BaseException, trace: TracebackType | None
) -> None:
    """End the job after an uncaught exception: the others would wait forever."""

    with suppress(ValueError):  # another thread than the main one
        # A second Ctrl-C here would end this function, and Finalize would wait for the others.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    if isinstance(value, ImpiError):
        fail(value)

    if (lack := _exhausted(value)) and _is_of_impi(trace):
        _say(f"impi: rank {_rank()} ends the job: {lack}")
        abort(1)

    import traceback

    traceback.print_exception(kind, value, trace)
    if _state.finalized or _state.engine is None:
        return

    if isinstance(value, MPIException):
        abort_on_error(value)

    if isinstance(value, LackingError):
        _say(f"impi: rank {_rank()} ends the job: {value}")
        abort(1)

    if issubclass(kind, KeyboardInterrupt):
        abort(ExitCode.SIGINT)

    _say(f"impi: rank {_rank()} ends the job: uncaught {kind.__name__}")
    abort(1)


def _exhausted(failure: BaseException) -> str:
    from impi.base.exhausted import sentence  # few processes come here

    return sentence(failure)


def _is_of_impi(trace: TracebackType | None) -> bool:
    """Return whether impi has raised an exception, and not the program."""
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next

    return (
        trace is not None
        and trace.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "impi"
    )


def _thread_ended(
    otherwise: Callable[[threading.ExceptHookArgs], object],
    ended: threading.ExceptHookArgs,
) -> None:
    """End the job if a thread ends by a call that impi does not have; else as the program does."""
    value = ended.exc_value
    if type(value) is NotImplementedError and hooks.lacking:
        value = LackingError(hooks.lacking)

    if isinstance(value, LackingError):
        _abort_on_exception(ended.exc_type, value, ended.exc_traceback)
    else:
        otherwise(ended)
