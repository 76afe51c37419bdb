"""One thread at a time in the engine: MPI_THREAD_SERIALIZED, checked.

Each entry of the engine compares the calling thread with the last one, :attr:`Threads.owner`. Only
a change of thread costs more: the newcomer takes the ownership, then looks at the stack of the
former owner. While that stack has a frame of the engine, the former owner is in an MPI call, and
the newcomer waits. So the engine needs no lock and no flag while one thread makes all calls.

Short overlaps are harmless, because calls follow each other. A call that blocks until the newcomer
makes its own would wait for ever, so the job ends with one sentence after :data:`LIMIT_S`.

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
from typing import Final

from impi.errors import JobError

LIMIT_S = 10.0
"""Longest wait of a thread until another has left MPI."""
_LOOK_S: Final = 50e-6
"""First sleep between two looks; the next ones are longer, up to 1 ms."""
_ENGINE: Final = ("impi.engine.", "impi.transfer.")


class Threads:
    """The threads of one proc in MPI; an entry calls :meth:`enter` if not the owner."""

    __slots__ = ("_awaited", "_door", "_guest", "_turn", "helper", "owner")

    def __init__(self) -> None:
        self.owner = 0
        """Identifier of the last thread that entered."""
        self.helper = 0
        """Identifier of the progress thread; its turns are those of the owner."""
        self._awaited = 0
        """Identifier of the former owner, while a newcomer looks at its stack."""
        self._door = threading.Lock()
        self._guest = 0
        """Identifier of the last thread that called :meth:`attempt`."""
        self._turn = threading.Lock()
        """Held from :meth:`attempt` to :meth:`restore`, and by the progress thread in a turn."""

    def enter(self) -> None:
        """Make the calling thread the owner, after the former owner has left the engine.

        Raises:
            JobError: the former owner did not leave within :data:`LIMIT_S`.
        """
        me = get_ident()
        if me in (self.helper, self._guest):
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

    def rest(self, sleep: Callable[[float], None], seconds: float) -> None:
        """Sleep outside of the engine, between two turns of a wait (:mod:`.shared_engine`).

        Afterwards the caller compares the owner, and calls :meth:`come_back` if that is another.
        ``sleep`` touches nothing of the engine that another thread may change.
        """
        sleep(seconds)

    def come_back(self) -> None:
        """Make the calling thread the owner again, whatever of its calls is on its stack.

        Raises:
            JobError: see :meth:`enter`.
        """
        me = get_ident()
        end, nap = time.monotonic() + LIMIT_S, _LOOK_S
        if not self._door.acquire(timeout=LIMIT_S):
            raise _overlap(me, self.owner)
        try:
            former = self._awaited = self.owner
            self.owner = me
            while _is_inside(former) or self._returns(former):
                if time.monotonic() > end:
                    raise _overlap(me, former)
                time.sleep(nap)
                nap = min(nap * 2, 1e-3)
        finally:
            self._awaited = 0
            self._door.release()

    def _returns(self, former: int) -> bool:
        """Let the former owner in no more; return whether it came back just before that."""
        self._awaited = 0
        if _is_inside(former):
            self._awaited = former
            return True
        return False

    def helping(self) -> threading.Lock:
        """Return what the progress thread holds in a turn: a guest then stays outside.

        The stack of the owner does not say it: a program in C that blocks in its library has no
        frame of the engine.
        """
        return self._turn

    def attempt(self) -> int | None:
        """Make the calling thread the owner if no other is in the engine; None: one is.

        For one thread that is no program's, the *guest*. Returns the former owner, for
        :meth:`restore`.
        """
        me = get_ident()
        if not self._door.acquire(blocking=False):
            return None  # a thread is about to enter
        try:
            if not self._turn.acquire(blocking=False):
                return None  # another guest, or the progress thread
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
    """Return whether a thread is in the engine; one that waits in :meth:`Threads.enter` is not."""
    entering = inside = False
    for frame in _stack(ident):
        if frame.f_code in _OUTSIDE:
            return False  # all calls below wait, between two turns; those above sleep
        if frame.f_code is _ENTER:
            entering = True  # the next frame is the entry, which has done nothing yet
        elif entering:
            entering = False
        elif frame.f_globals.get("__name__", "").startswith(_ENGINE) and frame.f_globals is not globals():
            inside = True
    return inside


def _stack(ident: int) -> Iterator[FrameType]:
    """Yield the frames of a thread, innermost first; none if there is no such thread."""
    # Python before 3.12 makes this table under a lock of the interpreter. A collection there runs
    # code that may hand the GIL to a thread that wants that lock: then all threads wait for ever.
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


def _overlap(me: int, other: int) -> JobError:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return JobError(
        f"threads {names.get(other, other)} and {names.get(me, me)} were in MPI at the same time for {LIMIT_S:g} s; "
        "impi provides MPI_THREAD_SERIALIZED: let one lock guard all MPI calls, and poll instead of blocking"
    )


_ENTER: Final[CodeType] = Threads.enter.__code__
_OUTSIDE: Final[tuple[CodeType, ...]] = (Threads.rest.__code__, Threads.come_back.__code__)
