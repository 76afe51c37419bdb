"""One thread at a time in the engine, whichever calls MPI: what MPI_THREAD_MULTIPLE needs.

Each entry of the engine (:mod:`.entries`) holds the lock of its proc, :attr:`Threads.lock`. The
lock is reentrant: a call within a call of the same thread is in at once.

A call that blocks may wait for one that another thread is about to make. So the lock has two forms
over one reentrant lock:

* At first, the reentrant lock itself. In a process of one thread nobody can come, and the lock
  costs no Python call.
* Once a wait is about to sleep in a process of several threads, :meth:`Threads.share` puts a
  :class:`_Queue` in its place. From then on waits sleep outside of the engine
  (:mod:`impi.rank.engine.turns`), and threads that want in are counted.

Blocking calls of the MPI library are outside of the engine anyway
(:mod:`impi.rank.engine.job.progress_thread`).
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
_SAY_S = 10.0  # Time after which a thread says for which other one it waits

P = ParamSpec("P")
R = TypeVar("R")

_helpers: list[threading.Thread] = []  # Those that run; most end with the process
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
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...


class Threads:
    """The threads of one proc in MPI."""

    __slots__ = ("_away", "_holder", "_queue", "_reentrant", "_visited", "_wanting", "crowded", "lock", "shared")

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
        self._away = 0  # How many threads are outside, in the middle of a call
        self._visited = False  # Whether a guest has its turn
        self._holder = 0  # The last thread that came in by the queue

    def share(self, *, crowded: bool = False) -> None:
        """Let waits sleep outside from now on; ``crowded``: other threads are about to call."""
        self.lock, self.shared = self._queue, True
        self.crowded = self.crowded or crowded

    def notice(self) -> bool:
        """Share waits if this process has several threads; return whether they are shared."""
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
        if not reentrant._is_owned():
            return function(*args, **named)
        depth: object = None
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
                        reentrant._acquire_restore(depth)  # the entries on this stack release it
                finally:
                    self._away -= 1
                    self._holder = me
                    self._wanting.discard(me)

    def enter(self) -> None:
        """Come into the engine in the queue's form, after the thread that is in has left."""
        me, reentrant = get_ident(), self._reentrant
        was_in = reentrant._is_owned()
        try:
            if not reentrant.acquire(blocking=False):
                self._await_turn(me)
            if self._away and not self._visited:
                self.crowded = True
            self._holder = me
        except BaseException:  # an interrupt: no entry begins that would release the lock
            if not was_in and reentrant._is_owned():
                reentrant._release_save()
            raise

    def _await_turn(self, me: int) -> None:
        self.crowded = self.crowded or not self._visited
        self._wanting.add(me)
        try:
            while not self._reentrant.acquire(timeout=_SAY_S):
                _say(me, self._holder)
        finally:
            self._wanting.discard(me)

    def attempt(self) -> bool:
        """Come in for one turn if no other thread is in, and none waits; then :meth:`restore`.

        For threads that are no program's, *guests*.
        """
        if self._wanting or not self._reentrant.acquire(blocking=False):
            return False
        self._visited = True
        return True

    def restore(self) -> None:
        """Leave after :meth:`attempt`."""
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
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        raise NotImplementedError


def _queue(threads: Threads, reentrant: _Reentrant) -> _Queue:
    """Return a queue whose exit is the lock's own: no interrupt comes between its two ends."""
    made: _Queue = type("Queue", (_Queue,), {"__slots__": (), "__exit__": reentrant.__exit__})(threads)
    return made


def start_helper(target: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread of impi's own: a guest, or one that never calls MPI."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    _helpers.append(thread)  # not before: while it is counted only here, two threads look like one
    return thread


def join_helper(thread: threading.Thread) -> None:
    """Wait for the end of a thread of :func:`start_helper`."""
    _helpers.remove(thread)  # first: while it is counted nowhere, there seem to be two threads
    thread.join()


def expect_threads() -> None:
    """A program in C has asked for several threads, which Python does not count."""
    global _expected
    _expected = True


def expects_threads() -> bool:
    """Whether :func:`expect_threads` was called."""
    return _expected


def is_single() -> bool:
    """Whether no other thread of the program can come into MPI while this one sleeps."""
    return threading.active_count() <= 1 + len(_helpers) and not _expected


def longest_sleep(seconds: float) -> float:
    """Return how long a wait may sleep: short if another thread may come, which cannot wake it."""
    return seconds if is_single() else min(seconds, NOTICE_S)


def _say(me: int, holder: int) -> None:
    """Tell for which thread this one waits."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    other = f"thread {names[holder]}" if holder in names else "another thread"
    sys.stderr.write(
        f"impi: thread {names.get(me, me)} waits for {other}, which has been in one call of MPI for {_SAY_S:g} s "
        f"or more\n"
    )
    sys.stderr.flush()
