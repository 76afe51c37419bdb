"""Blocking calls of the MPI library, and a thread that drives the engine while one lasts.

A proc that blocks in its library serves no channel and matches no local message. A job would
deadlock if another proc waits for one of these before it makes its own call.

How it works: a helper thread
checks every millisecond whether a call has lasted since the last check. If so, the helper takes
turns of the engine until the call returns. Without calls the helper sleeps for good.

A thread in such a call is outside of the engine, so other threads may call MPI meanwhile. The
helper is a guest (:meth:`impi.rank.engine.channels.threads.Threads.attempt`): it has its turns when
no thread is in the engine. The library must allow several threads (MPI_THREAD_MULTIPLE), since the
helper polls it meanwhile. A call costs 0.4 us more than the library's own, for its row in the table
of calls; docs/decisions/client-local-collectives.md has the alternatives.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from impi.rank.engine.channels.threads import expects_threads, start_helper

if TYPE_CHECKING:
    from impi.rank.engine.context import Context
    from impi.rank.engine.engine import Engine


T = TypeVar("T")

_LOOK_S: Final = 1e-3  # Time between two checks; a shorter call never meets the helper
# First sleep between two turns; the next ones are longer, up to _LOOK_S
_NAP_S: Final = 20e-6
# Checks without a new call after which the helper sleeps until the next call.
_PATIENCE: Final = 50
# Time for a call to return once its communicator is broken: the library may have all it needs.
_LEAVE_S: Final = 1.0
# Time between two checks after that, if calls come from C: these cannot wake the helper.
_LOOK_EACH_S: Final = 10e-3


class Calls(Protocol):
    """Calls of the library that do not come through Python."""

    def now(self) -> tuple[int, bool]:
        """Return the number of calls so far, and whether one is under way."""

    def serve(self, serving: bool, /) -> None:
        """Note that the helper comes into the engine, or leaves it; a call that ends waits."""


class ProgressThread:
    """The helper thread of one proc.

    Args:
        engine: of this proc.
        failed: called in the helper, at its end, with an exception that ends the job.
    """

    __slots__ = (
        "_asleep",
        "_begun",
        "_engine",
        "_failed",
        "_numbers",
        "_thread",
        "_under_way",
        "_wake",
        "_watched",
        "_world",
    )

    def __init__(self, engine: Engine, failed: Callable[[Exception], None]) -> None:
        self._engine = engine
        self._failed = failed
        self._numbers = count(1)
        self._begun = 0  # Number of the last call
        # Calls of Python under way, by number, and their communicators.
        self._under_way: dict[int, Context] = {}
        self._watched: Calls | None = None
        self._world: Context | None = None  # Communicator of the watched calls
        self._asleep = True
        self._wake = threading.Semaphore(0)
        self._thread: threading.Thread | None = None

    def watch(self, context: Context, calls: Calls) -> None:
        """Watch calls of the program in C, too, from now on; the helper never sleeps for good."""
        self._world, self._watched = context, calls
        if self._asleep:
            self._rouse()

    def around(self, context: Context, function: Callable[..., T]) -> Callable[..., T]:
        """Return ``function``, a blocking library call on ``context``, watched by the helper."""
        under_way, numbers = self._under_way, self._numbers

        # No lock: each step on the dictionary is atomic under the GIL, and the helper looks at
        # copies.
        def call(*args: object) -> T:
            # Counted before the flag is read. The helper sets the flag before it reads the count,
            # so at least one of the two sees the other.
            self._begun = number = next(numbers)

            under_way[number] = context
            if self._asleep:
                self._rouse()

            try:
                return function(*args)
            finally:
                del under_way[number]

        return call

    def _rouse(self) -> None:
        self._asleep = False
        if self._thread is None:
            self._thread = start_helper(self._run, "impi progress")
        else:
            self._wake.release()

    def _run(self) -> None:
        try:
            self._look()
        except Exception as failure:  # the program's thread is in the library
            self._failed(failure)

    def _look(self) -> None:
        begun, before = self._calls_under_way()

        idle = 0
        while True:
            time.sleep(_LOOK_S)

            # A number in both looks is a call that has lasted for all of the time between them.
            calls, now = self._calls_under_way()
            if lasting := now & before:
                self._serve(lasting)
            elif calls != begun:
                # Calls came and went between two looks: the helper stays awake for the next one.
                idle = 0
            elif (idle := idle + 1) >= _PATIENCE and self._watched is not None:
                time.sleep(_LOOK_EACH_S)
            elif idle >= _PATIENCE:
                # The flag first, then the second look: a call that begins in between sees the flag
                # and releases the semaphore, or is seen here.
                self._asleep, idle = True, 0
                if self._begun == begun:
                    self._wake.acquire()

                self._asleep = False

            begun, before = calls, now

    def _calls_under_way(self) -> tuple[int, set[int]]:
        """Return the number of calls so far, and the numbers of the calls that are under way.

        Watched calls have negative numbers.
        """

        numbers = set(self._under_way)
        if self._watched is None:
            return self._begun, numbers

        calls, inside = self._watched.now()
        if inside:
            # With several threads one call may last while others begin: then the count of calls
            # says nothing about a single one.
            numbers.add(-1 if expects_threads() else -1 - calls)

        return self._begun + calls, numbers

    def _serve(self, calls: set[int]) -> None:
        """Take turns of the engine until these calls return, or a communicator is broken."""
        nap, broken_at = _NAP_S, math.inf
        # Calls that began later have not lasted yet. The next look decides about them.
        while calls & self._calls_under_way()[1]:
            moved = self._take_turn(calls)
            broken_at = self._leave_broken(broken_at)
            nap = _NAP_S if moved else min(nap * 1.25, _LOOK_S)
            self._engine.threads.outside(self._engine.turns.doze, nap)

    def _contexts(self) -> list[Context]:
        contexts = list(self._under_way.values())
        return contexts if self._world is None else [*contexts, self._world]

    def _leave_broken(self, broken_at: float) -> float:
        """Return the time when a communicator was seen broken. No call of the library can be left.

        Raises:
            MPIException: it has been broken for :data:`_LEAVE_S`, and the call still lasts.
        """

        broken = [context for context in self._contexts() if context.faults.broken]
        if not broken:
            return math.inf

        now = time.monotonic()
        if now - broken_at > _LEAVE_S:
            broken[0].faults.check()

        return min(broken_at, now)

    def _take_turn(self, calls: set[int]) -> bool:
        if self._watched is None:
            return bool(self._engine.turns.serve(self._contexts()))

        # C code holds no lock of Python, so it could come into the engine beside the helper. A call
        # of C that ends waits for the second word.
        self._watched.serve(True)
        try:
            return bool(
                calls & self._calls_under_way()[1]
                and self._engine.turns.serve(self._contexts())
            )
        finally:
            self._watched.serve(False)
