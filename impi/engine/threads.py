"""One thread at a time in the engine, whichever calls MPI: what MPI_THREAD_MULTIPLE needs.

Each entry of the engine compares the calling thread with the last one, :attr:`Threads.owner`. Only
a change of thread costs more: the newcomer takes the ownership, then looks at the stack of the
former owner. While that stack has a frame of the engine, the former owner is in an MPI call, and
the newcomer waits. So the engine needs no lock and no flag while one thread makes all calls.

A call that blocks may wait for one that the newcomer is about to make. So a newcomer that has to
wait sets :attr:`Threads.crowded`: from then on each wait leaves the engine between two turns
(:mod:`.turns`). Blocking calls of the MPI library are outside of the engine anyway
(:mod:`.progress_thread`).

The order matters: the newcomer writes ``owner`` before it looks. A thread that passed its check
earlier has the frame of that check on its stack; a later one finds that it is not the owner.
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from threading import get_ident
from types import CodeType, FrameType
from typing import Final, ParamSpec, TypeVar

_NOTICE_S: Final = 0.05
"""Longest sleep of a wait in a program of several threads, until the first of them has to wait."""
_SAY_S = 10.0
"""Time after which a thread says for which other one it waits."""
_LOOK_S: Final = 50e-6
"""First sleep between two looks; the next ones are longer, up to 1 ms."""
_ENGINE: Final = ("impi.engine.", "impi.transfer.")
_AROUND: Final = (__name__, "impi.engine.progress_thread")
"""Modules of the engine whose frames touch nothing that another thread may change."""

P = ParamSpec("P")
R = TypeVar("R")

_helpers: list[threading.Thread] = []
"""Those that run; most end with the process."""
_expected = False
_listing: Final = threading.RLock()
"""Held while the collector is off: one thread must not turn it on for another."""


class Threads:
    """The threads of one proc in MPI; an entry calls :meth:`enter` if not the owner."""

    __slots__ = ("_awaited", "_door", "_guest", "_turn", "crowded", "owner")

    def __init__(self) -> None:
        self.owner = 0
        """Identifier of the last thread that entered."""
        self.crowded = False
        """Whether a thread has ever found another one in the engine: waits share it since."""
        self._awaited = 0
        """Identifier of the former owner, while a newcomer looks at its stack."""
        self._door = threading.Lock()
        self._guest = 0
        """Identifier of the last thread that called :meth:`attempt`."""
        self._turn = threading.Lock()
        """Held from :meth:`attempt` to :meth:`restore`."""

    def enter(self) -> None:
        """Make the calling thread the owner, after the former owner has left the engine."""
        me = get_ident()
        if me == self._guest:
            return
        if _is_inside(me):
            # A call within a call of this thread, for which others wait; a guest that came before
            # this thread leaves at once. If nobody waits for this thread, it is not in yet: an
            # engine function that makes no check itself has called the entry.
            for _ in range(2):  # a guest may give the ownership back between two looks
                if self._awaited == me:
                    with self._turn:
                        return
                if self.owner == me:
                    return
        self.come_back()

    def is_wanted(self) -> bool:
        """Return whether another thread waits until the calling one leaves the engine."""
        return self._awaited == get_ident()

    def outside(self, function: Callable[P, R], *args: P.args, **named: P.kwargs) -> R:
        """Call a function outside of the engine, for which other threads need not wait.

        It touches nothing of the engine that another thread may change: the sleep between two turns
        of a wait (:mod:`.turns`), a call of the MPI library. Afterwards the caller compares the
        owner, and calls :meth:`come_back` if that is another.
        """
        return function(*args, **named)

    def come_back(self) -> None:
        """Make the calling thread the owner again, whatever of its calls is on its stack."""
        me = get_ident()
        with self._door:
            former = self._awaited = self.owner
            self.owner = me
            try:
                if former == self._guest:
                    with self._turn:
                        return  # its turn is over
                nap, say_at = _LOOK_S, time.monotonic() + _SAY_S
                while _is_inside(former) or self._returns(former):
                    self.crowded = True
                    time.sleep(nap)
                    nap = min(nap * 2, 1e-3)
                    if time.monotonic() > say_at:
                        say_at += _SAY_S
                        _say(me, former)
            except BaseException:  # an interrupt
                self.owner = former
                raise
            finally:
                self._awaited = 0

    def _returns(self, former: int) -> bool:
        """Let the former owner in no more; return whether it came back just before that."""
        self._awaited = 0
        if _is_inside(former):
            self._awaited = former
            return True
        return False

    def attempt(self) -> int | None:
        """Make the calling thread the owner if no other is in the engine; None: one is.

        For threads that are no program's, *guests*: one at a time. Returns the former owner, for
        :meth:`restore`.
        """
        me = get_ident()
        if not self._door.acquire(blocking=False):
            return None  # a thread is about to enter
        try:
            if not self._turn.acquire(blocking=False):
                return None  # another guest
            self._guest = me
            former = self._awaited = self.owner
            self.owner = me
            if former != me and (_is_inside(former) or self._returns(former)):
                self.owner = former
                self._turn.release()
                return None
            return former
        finally:
            self._awaited = 0
            self._door.release()

    def restore(self, former: int) -> None:
        """Give the ownership back after :meth:`attempt`, unless a thread wants it already."""
        self._turn.release()
        if self._door.acquire(blocking=False):
            try:
                if self.owner == get_ident():
                    self.owner = former
            finally:
                self._door.release()


def _is_inside(ident: int) -> bool:
    """Return whether a thread is in the engine; while it waits, or calls the library, it is not."""
    entering = inside = False
    for frame in _stack(ident):
        if frame.f_code in _OUTSIDE:
            return False  # all calls below wait, between two turns; those above sleep
        if frame.f_code is _ENTER:
            entering = True  # the next frame is the entry, which has done nothing yet
        elif entering:
            entering = False
        else:
            module = frame.f_globals.get("__name__", "")
            inside = inside or (module.startswith(_ENGINE) and module not in _AROUND)
    return inside


def _stack(ident: int) -> Iterator[FrameType]:
    """Yield the frames of a thread, innermost first; none if there is no such thread."""
    # Python before 3.12 makes this table under a lock of the interpreter. A collection there runs
    # code that may hand the GIL to a thread that wants that lock: then all threads wait for ever.
    with _listing:
        collects = gc.isenabled()
        gc.disable()
        try:
            frame = sys._current_frames().get(ident)
        finally:
            if collects:
                gc.enable()
    while frame is not None:
        yield frame
        frame = frame.f_back


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
    return seconds if is_single() else min(seconds, _NOTICE_S)


def _say(me: int, other: int) -> None:
    """Tell for which thread this one waits."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    sys.stderr.write(
        f"impi: thread {names.get(me, me)} waits for thread {names.get(other, other)}, which has been in one call of "
        f"MPI for {_SAY_S:g} s or more\n"
    )
    sys.stderr.flush()


_ENTER: Final[CodeType] = Threads.enter.__code__
_OUTSIDE: Final[tuple[CodeType, ...]] = (Threads.outside.__code__, Threads.come_back.__code__)
