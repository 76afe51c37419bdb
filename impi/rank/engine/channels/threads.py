"""One thread at a time in the engine, whichever calls MPI: what MPI_THREAD_MULTIPLE needs.

How it works: each entry of the engine (:mod:`.entries`) holds the lock of its proc,
:attr:`Threads.lock`. The lock is reentrant: a call within a call of the same thread is in at once.

A call that blocks may wait for one that another thread is about to make. So the lock has two forms
over one reentrant lock:

* At first, the reentrant lock itself. A process of one thread has no contention, and this lock
  costs it no Python call.
* Once a wait is about to sleep in a process of several threads, :meth:`Threads.share` puts a
  :class:`_Queue` in its place. From then on waits sleep outside of the engine
  (:mod:`impi.rank.engine.turns`), and threads that want in are counted.

Not from the start, because a wait inside is one blocking receive, a single system call a message;
programs of one thread would lose it (docs/decisions/threads.md). Blocking calls of the MPI library
are outside of the engine anyway (:mod:`impi.rank.engine.job.progress_thread`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from threading import get_ident
from types import TracebackType
from typing import Final, ParamSpec, Protocol, TypeVar

NOTICE_S: Final = 0.05
"""Longest sleep of a wait in a process of several threads, until another one has called MPI."""
_SAY_S = 10.0  # A thread that has waited this long says for which other one it waits

P = ParamSpec("P")
R = TypeVar("R")

# Helper threads that run; most end with the process
_helpers: list[threading.Thread] = []
_expected = False


class _Reentrant(Protocol):
    """``threading.RLock``, with what ``threading.Condition`` uses of it, too."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...

    def release(self) -> None: ...

    def _is_owned(self) -> bool: ...

    def _release_save(self) -> object: ...

    def _acquire_restore(self, state: object, /) -> None: ...

    def __enter__(self) -> bool: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None: ...


class Threads:
    """The threads of one proc in MPI."""

    __slots__ = (
        "_away",
        "_holder",
        "_queue",
        "_reentrant",
        "_visited",
        "_wanting",
        "crowded",
        "lock",
        "shared",
    )

    def __init__(self) -> None:
        reentrant: _Reentrant = threading.RLock()  # type: ignore[assignment]  # typeshed leaves out Condition's part
        self._reentrant = reentrant
        self._queue = _queue(self, reentrant)
        self.lock: _Reentrant | _Queue = reentrant
        """Held by whoever is in the engine."""
        self.shared = False
        """Whether waits sleep outside of the engine."""
        self.crowded = False
        """Whether a thread has ever come while another one was in a call of MPI."""
        self._wanting: set[int] = set()  # Threads that wait until the holder leaves
        self._away = 0  # Number of threads that are outside in the middle of a call
        self._visited = False  # Whether a guest has its turn
        self._holder = 0  # The last thread that came in by the queue, for _say()

    def share(self, *, crowded: bool = False) -> None:
        """Let waits sleep outside from now on; ``crowded``: other threads are about to call."""
        # Safe at any time: both forms are over one reentrant lock, so a thread that still waits in
        # the plain form excludes all others as before. It is only not counted.
        self.lock, self.shared = self._queue, True
        self.crowded = self.crowded or crowded

    def notice(self) -> bool:
        """Share waits if this process has several threads; return whether they are shared."""
        # Asked before each sleep, as a program may start threads at any time.
        if not is_single():
            self.share()

        return self.shared

    def is_wanted(self) -> bool:
        """Return whether another thread waits until the calling one leaves the engine."""
        return bool(self._wanting)

    def outside(self, function: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        """Call a function outside of the engine, whatever entries the calling thread is in.

        Other threads come in meanwhile. The function touches nothing of the engine that they may
        change: the sleep between two turns of a wait, a call of the MPI library.
        """

        reentrant, me = self._reentrant, get_ident()
        # The calling thread is in no entry: a helper, or a call that holds no lock.
        if not reentrant._is_owned():
            return function(*args, **named)

        # RLock has no public way to give up all its levels at once. threading.Condition needs one
        # as well, and these are the methods it uses.
        depth: object = None

        # Counted before the lock is free: the thread that comes in next has to see that a call is
        # in its middle, see enter().
        self._away += 1
        try:
            depth = reentrant._release_save()
            return function(*args, **named)
        finally:
            # An interrupt comes after any of these calls: each step is made nevertheless.
            try:
                self._wanting.add(me)
            finally:
                try:
                    if depth is not None:
                        # The entries on this stack release it
                        reentrant._acquire_restore(depth)
                finally:
                    self._away -= 1
                    self._holder = me
                    self._wanting.discard(me)

    def enter(self) -> None:
        """Come into the engine in the queue's form, after the thread that is in has left."""
        me, reentrant = get_ident(), self._reentrant

        # An interrupt must undo what this call has taken, and no more: entries further up the stack
        # may hold the lock already.
        was_in = reentrant._is_owned()
        try:
            # Mostly free: then no thread has to be told of the wish to come in.
            if not reentrant.acquire(blocking=False):
                self._await_turn(me)

            # A thread of the program has come in the middle of another one's call: from now on it
            # may read that call's packet, and no descriptor will wake the other.
            if self._away and not self._visited:
                self.crowded = True

            self._holder = me
        except BaseException:
            # An interrupt: no entry begins that would release the lock
            if not was_in and reentrant._is_owned():
                reentrant._release_save()

            raise

    def _await_turn(self, me: int) -> None:
        self.crowded = self.crowded or not self._visited

        self._wanting.add(me)
        try:
            # A function of the program's own, such as a reduction, may last long inside of MPI. So
            # the user is told, and nothing is ended.
            while not self._reentrant.acquire(timeout=_SAY_S):
                _say(me, self._holder)
        finally:
            self._wanting.discard(me)

    def attempt(self) -> bool:
        """Come in for one turn if no other thread is in, and none waits; then :meth:`restore`.

        For *guests*: helper threads of impi's own, which must not delay the program's.
        """
        # The reentrant lock is not fair: a guest that comes again and again could take it each time
        # before a thread of the program that waits.
        if self._wanting or not self._reentrant.acquire(blocking=False):
            return False

        # The entries within this turn come by enter(), which must not take the guest for a thread
        # of the program.
        self._visited = True

        return True

    def restore(self) -> None:
        """Leave after :meth:`attempt`."""
        # While the lock is still held: after the release it may be the next thread's turn.
        self._visited = False
        self._reentrant.release()


class _Queue:
    """The lock of a proc that tells the thread inside who waits for it."""

    __slots__ = ("_threads",)

    def __init__(self, threads: Threads) -> None:
        self._threads = threads

    def __enter__(self) -> None:
        self._threads.enter()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        raise NotImplementedError


def _queue(threads: Threads, reentrant: _Reentrant) -> _Queue:
    """Return a queue whose exit is the lock's own: no interrupt comes between its two ends."""
    # A Python __exit__ could be interrupted by Ctrl-C before it releases, and the lock would stay
    # held for ever. A C function is not.
    made: _Queue = type(
        "Queue", (_Queue,), {"__slots__": (), "__exit__": reentrant.__exit__}
    )(threads)
    return made


def start_helper(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread of impi's own: a guest, or one that never calls MPI."""

    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    # Not before: while it is counted only here, two threads look like one
    _helpers.append(thread)

    return thread


def join_helper(thread: threading.Thread) -> None:
    """Wait for the end of a thread of :func:`start_helper`."""
    # first: while it is counted nowhere, there seem to be two threads
    _helpers.remove(thread)
    thread.join()


def expect_threads() -> None:
    """Note that a program in C has asked for several threads, which Python does not count."""
    global _expected
    _expected = True


def expects_threads() -> bool:
    """Whether :func:`expect_threads` was called."""
    return _expected


def is_single() -> bool:
    """Whether no other thread of the program can come into MPI while this one sleeps."""
    # Counted, since the level says nothing: mpi4py asks for MPI_THREAD_MULTIPLE by default.
    return threading.active_count() <= 1 + len(_helpers) and not _expected


def longest_sleep(seconds: float) -> float:
    """Return the longest sleep of a wait: short if another thread, which cannot wake it, may
    come."""
    return seconds if is_single() else min(seconds, NOTICE_S)


def _say(me: int, holder: int) -> None:
    """Tell which thread this one waits for."""

    names = {thread.ident: thread.name for thread in threading.enumerate()}
    other = f"thread {names[holder]}" if holder in names else "another thread"
    sys.stderr.write(
        f"impi: thread {names.get(me, me)} waits for {other}, which has been in one call of MPI for {_SAY_S:g} s "
        f"or more\n"
    )
    sys.stderr.flush()
