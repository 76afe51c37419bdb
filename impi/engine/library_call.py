"""Waits for non-blocking calls of the client's MPI library on the program's own memory.

The library is asked some dozen times without a pause. Then the engine serves everything of this proc and asks again,
as long as waits spin; the engine's own wait, with its sleeps, does the rest.
"""

from __future__ import annotations

from collections.abc import Callable

from impi.engine.engine import Engine
from impi.engine.waiting import ASKS

__all__ = ["LibraryCall", "abandon", "waiter"]

Test = Callable[[], bool]
"""Asks a request of the library whether it is complete. May be called again afterwards."""

_abandoned: list[tuple[Test, object]] = []
"""Memory into which a library may still write: it lives as long as the process."""


def abandon(test: Test, keep: object) -> None:
    """Keep the memory of a call that is no longer waited for: the library may still write into it."""
    _abandoned.append((test, keep))


class LibraryCall:
    """A call of the library under way, as the engine drives it.

    Args:
        test: of the library's request.
        keep: memory that must live until the call is complete.
    """

    __slots__ = ("_keep", "_test", "cancelled", "done", "failure")

    def __init__(self, test: Test, keep: object) -> None:
        self._test = test
        self._keep = keep
        self.failure: Exception | None = None
        self.done = False
        self.cancelled = False

    def advance(self) -> bool:
        """Ask the library."""
        if not self.done:
            try:
                self.done = self._test()
            except Exception as failure:  # the wait raises it: whoever drives the engine now did not make the call
                self.failure, self.done = failure, True
            if self.done:
                self._keep = None
        return self.done


def waiter(engine: Engine, failure: type[Exception]) -> Callable[[Test, object], None]:
    """Return ``wait(test, keep)``, which drives this proc until a call of the library is complete.

    Args:
        engine: of this proc.
        failure: what the library raises; the call is over then, and ``wait`` raises it, too.
    """
    asks, progress = engine.asks, engine.progress
    calls = 0

    def wait(test: Test, keep: object) -> None:
        nonlocal calls
        try:
            if not test():
                for _ in asks:
                    if test():
                        break
                else:
                    _finish(engine, test, keep)
        except failure:
            raise
        except BaseException:
            abandon(test, keep)  # an interrupt
            raise
        calls += 1
        if calls > ASKS:
            # A program whose calls are always complete at once serves its channels, too.
            calls = 0
            progress()

    return wait


def _finish(engine: Engine, test: Test, keep: object) -> None:
    """Wait on, after the first dozens of questions."""
    if engine.ask(test):
        return
    call = LibraryCall(test, keep)
    try:
        engine.track(call)
        engine.wait(lambda: call.done)
    finally:
        call.done = True  # after an interrupt the call is no longer waited for
    if call.failure is not None:
        raise call.failure
