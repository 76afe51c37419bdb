"""Waits for non-blocking calls of the client's MPI library on the program's own memory.

How it works: the library is asked some dozen times in a row. Then the engine serves everything of
this proc and asks again, as long as waits spin. After that the engine's own wait, with its sleeps,
takes over. No message is waited for inside the library: another proc may need our channels first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from impi.rank.engine.channels.entries import checked_entry
from impi.rank.engine.channels.waiting import ASKS
from impi.rank.engine.engine import Engine

if TYPE_CHECKING:
    from impi.rank.engine.context import Context

R = TypeVar("R")

Test = Callable[[], bool]
"""Polls a request of the library; may be called again after it was complete."""

# Memory that a library may still write: kept as long as the process.
_abandoned: list[tuple[Test, object]] = []


def abandon(test: Test, keep: object) -> None:
    """Keep the memory of a call that is not awaited any more: the library may still write it."""
    _abandoned.append((test, keep))


class LibraryCall:
    """A call of the library under way, driven by the engine.

    Args:
        test: polls the library's request.
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
        if not self.done:
            try:
                self.done = self._test()
            except Exception as failure:
                # Raised by the wait: the engine's current driver need not be the caller
                self.failure, self.done = failure, True

            if self.done:
                self._keep = None

        return self.done


class Start(Protocol):
    """Starts a receive of the library, or looks for a message there."""

    def __call__(self, call: Callable[..., R], *args: object) -> R | None:
        """Return the result of ``call``; None: the engine has an older receive or message.

        Other threads, whose turns take messages off the library, are outside meanwhile.
        """


def starter(engine: Engine, context: Context) -> Start:
    """Return the :class:`Start` for receives of a communicator."""

    # Check and call are one entry: a turn of another thread between them could drain the message
    # into the matcher, and the library's receive would wait for the next one.
    threads = engine.threads
    posted, unexpected = context.matchers[0].lines()

    @checked_entry
    def start(call: Callable[..., R], *args: object) -> R | None:
        with threads.lock:
            return None if posted or unexpected else call(*args)

    return start


def waiter(engine: Engine, failure: type[Exception]) -> Callable[[Test, object], None]:
    """Return ``wait(test, keep)``, which drives this proc until a call of the library is complete.

    Args:
        engine: of this proc.
        failure: the exception of a failed call; ``wait`` raises it, too.
    """

    asks, progress, threads = engine.turns.asks, engine.turns.progress, engine.threads
    calls = 0

    @checked_entry
    def wait(test: Test, keep: object) -> None:
        with threads.lock:
            nonlocal calls
            try:
                if not test():
                    # Mostly complete after some polls: then the engine takes no turn for this call.
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
                # A program whose calls are always complete at once never comes to a turn otherwise,
                # and its channels must be served, too.
                calls = 0
                progress()

    return wait


def _finish(engine: Engine, test: Test, keep: object) -> None:
    """Wait on, after the first polls."""

    if engine.turns.ask(test):
        return

    call = LibraryCall(test, keep)
    try:
        engine.turns.track(call)
        engine.turns.wait(lambda: call.done)
    finally:
        call.done = True  # an interrupt ends the wait

    if call.failure is not None:
        raise call.failure
