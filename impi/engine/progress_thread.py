"""Blocking calls of the MPI library, and a thread that drives the engine while one lasts.

A proc that blocks in its library serves no channel and matches no local message. A job would
deadlock if another proc waits for one of these before it makes its own call. So a helper thread
checks every millisecond whether the program is still in the same call. If so, the helper takes
turns of the engine until the call returns. Without calls the helper sleeps for good.

The threads share the engine without a lock in the common case. The program touches the engine only
while ``_inside`` is false, the helper only while it is true and ``_serving`` is set. Each thread
writes its own flag before it reads the other's; the interpreter's lock orders the two.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from threading import get_ident
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from impi.engine.context import Context
    from impi.engine.engine import Engine


_LOOK_S: Final = 1e-3
"""Time between two checks; a shorter call never meets the helper."""
_NAP_S: Final = 20e-6
"""First sleep between two turns; the next ones are longer, up to :data:`_LOOK_S`."""
_PATIENCE: Final = 50
"""Checks without a new call after which the helper sleeps until the next call."""
_LEAVE_S: Final = 1.0
"""Time for a call to return once its communicator is broken: the library may have all it needs."""
_LOOK_EACH_S: Final = 10e-3
"""Time between two checks after that, if calls come from C: these cannot wake the helper."""


class Calls(Protocol):
    """Calls of the library that do not come through Python; their thread waits while we serve."""

    def now(self) -> tuple[int, bool]:
        """Return how many calls there have been, and whether one is under way."""
        ...

    def serve(self, serving: bool, /) -> None:
        """From now on the engine is the helper's, or is not."""
        ...


class ProgressThread:
    """The helper thread of one proc.

    Args:
        engine: of this proc.
        failed: called in the helper, at its end, with an exception that ends the job.
    """

    __slots__ = (
        "_asleep",
        "_calls",
        "_context",
        "_engine",
        "_failed",
        "_inside",
        "_serving",
        "_thread",
        "_turn",
        "_wake",
        "_watched",
    )

    def __init__(self, engine: Engine, failed: Callable[[Exception], None]) -> None:
        self._engine = engine
        self._failed = failed
        self._inside = False
        self._serving = False
        self._watched: Calls | None = None
        self._context: Context | None = None
        self._calls = 0
        self._asleep = True
        self._wake = threading.Semaphore(0)
        self._turn = threading.Lock()
        self._thread: threading.Thread | None = None

    def watch(self, context: Context, calls: Calls) -> None:
        """Watch calls of the program in C, too, from now on; the helper never sleeps for good."""
        self._context, self._watched = context, calls
        if self._asleep:
            self._rouse()

    def around(self, context: Context, function: Callable[..., object]) -> Callable[..., None]:
        """Return ``function``, a blocking library call on ``context``, watched by the helper."""

        threads = self._engine.threads

        def call(*args: object) -> None:
            if get_ident() != threads.owner:
                threads.enter()
            self._calls += 1
            if self._asleep:
                self._rouse()
            self._context = context
            self._inside = True
            try:
                function(*args)
            finally:
                self._inside = False
                if self._serving:
                    with self._turn:
                        pass  # the helper's turn is over

        return call

    def _rouse(self) -> None:
        self._asleep = False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="impi progress", daemon=True)
            self._thread.start()
        else:
            self._wake.release()

    def _run(self) -> None:
        self._engine.threads.helper = get_ident()
        try:
            self._look()
        except Exception as failure:  # the program's thread is in the library
            self._failed(failure)

    def _look(self) -> None:
        seen, idle = 0, 0
        while True:
            time.sleep(_LOOK_S)
            calls, inside = self._now()
            if calls != seen:
                seen, idle = calls, 0
            elif inside:
                self._serve(calls)
            elif (idle := idle + 1) >= _PATIENCE and self._watched is not None:
                time.sleep(_LOOK_EACH_S)
            elif idle >= _PATIENCE:
                self._asleep, idle = True, 0
                if self._calls == seen:  # else a call came before the flag was set
                    self._wake.acquire()
                self._asleep = False

    def _now(self) -> tuple[int, bool]:
        """Return how many calls there have been, and whether one is under way."""
        if self._watched is None:
            return self._calls, self._inside
        calls, inside = self._watched.now()
        return self._calls + calls, self._inside or inside

    def _serve(self, call: int) -> None:
        """Take turns of the engine until the call returns, or its communicator is broken."""
        nap, broken_at = _NAP_S, math.inf
        while self._now() == (call, True):
            with self._turn:
                self._set_serving(True)
                try:
                    moved = self._now()[1] and self._take_turn()
                finally:
                    self._set_serving(False)
            broken_at = self._leave_broken(broken_at)
            nap = _NAP_S if moved else min(nap * 1.25, _LOOK_S)
            self._engine.doze(nap)

    def _leave_broken(self, broken_at: float) -> float:
        """Return when the communicator was seen broken; the library's call itself cannot be left.

        Raises:
            MPIException: it has been broken for :data:`_LEAVE_S`, and the call still lasts.
        """
        assert self._context is not None  # a call is under way
        if not self._context.faults.broken:
            return math.inf
        now = time.monotonic()
        if now - broken_at > _LEAVE_S:
            self._context.faults.check()
        return min(broken_at, now)

    def _set_serving(self, serving: bool) -> None:
        self._serving = serving
        if self._watched is not None:
            self._watched.serve(serving)

    def _take_turn(self) -> bool:
        context = self._context
        assert context is not None  # a call is under way
        context.count_waiting(1)  # a local message may report a fault
        try:
            with self._engine.threads.helping():
                return self._engine.progress()
        finally:
            context.count_waiting(-1)
