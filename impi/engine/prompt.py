"""Calls of the client's own library on the program's own memory: how they are waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.waiting import ASKS

__all__ = ["PromptOperation", "abandon", "waiter"]

_abandoned: list[Any] = []
"""Memory into which a library may still write: it lives as long as the process."""


def abandon(test: Callable[[], bool], keep: Any) -> None:
    """Nobody waits for a call of the library any more, but it still has the memory."""
    _abandoned.append((test, keep))


class PromptOperation:
    """A call of the library under way, as the engine drives it.

    Args:
        test: of the library's request.
        keep: what must live until it is done.
        context: of a collective, which others may refuse.
    """

    __slots__ = ("_context", "_keep", "_test", "cancelled", "done", "failure")

    def __init__(self, test: Callable[[], bool], keep: Any, context: Context | None) -> None:
        self._test = test
        self._keep = keep
        self._context = context
        self.failure: Exception | None = None
        self.done = False
        self.cancelled = False

    def advance(self) -> bool:
        """Ask the library."""
        if not self.done:
            context = self._context
            if context is not None and context.faults.broken:
                self.failure, self.done = context.faults.failure(), True
            else:
                # Whoever drives the engine just now is not who has called it.
                try:
                    self.done = self._test()
                except Exception as failure:
                    self.failure, self.done = failure, True
            if self.done:
                self._keep = None
        return self.done


def waiter(
    engine: Engine, failure: type[Exception], context: Context | None = None
) -> Callable[[Callable[[], bool], Any], None]:
    """A function that waits for a call of the library, driving everything of this proc meanwhile: for the test of its
    request to say yes, with what must live until then.

    It raises what the library has found, in its own words; ERR_OTHER and so on where others have refused it.

    Args:
        engine: of this proc.
        failure: what the library raises; the call is over then.
        context: of a collective, the only one that is under way there; others may refuse it.
    """
    asks, progress = engine.asks, engine.progress
    calls = 0

    def wait(test: Callable[[], bool], keep: Any) -> None:
        nonlocal calls
        try:
            if not test():
                for _ in asks:
                    if test():
                        break
                else:
                    _finish(engine, test, keep, context)
        except failure:
            raise
        except BaseException:
            abandon(test, keep)  # an interrupt, or others have refused it
            raise
        calls += 1
        if calls > ASKS:
            # A program whose calls are always done at once serves its channels, too.
            calls = 0
            progress()

    return wait


def _finish(engine: Engine, test: Callable[[], bool], keep: Any, context: Context | None) -> None:
    """The rest of a wait that is no short one."""
    if engine.ask(test):
        return
    operation = PromptOperation(test, keep, context)
    if context is not None:
        context.waiting += 1  # a message of this client may say that it fails
    try:
        engine.track(operation)
        engine.wait(lambda: operation.done)
    finally:
        operation.done = True  # after an interrupt nobody waits for it
        if context is not None:
            context.waiting -= 1
    if operation.failure is not None:
        raise operation.failure
