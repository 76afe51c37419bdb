"""Calls of the client's own library on the program's own memory: how they are waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from impi.engine.context import Context
from impi.engine.engine import Engine
from impi.engine.waiting import ASKS

__all__ = ["ASKS", "PromptOperation", "abandon", "finish"]

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
                self.abandon()
                self.failure = context.faults.failure()
            else:
                # Whoever drives the engine just now is not who has called it.
                try:
                    self.done = self._test()
                except Exception as failure:
                    self.failure, self.done = failure, True
            if self.done:
                self._keep = None
        return self.done

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        if not self.done:
            abandon(self._test, self._keep)
            self.done = True


def finish(engine: Engine, test: Callable[[], bool], keep: Any, context: Context | None = None) -> None:
    """Wait for a call of the library, driving everything of this proc meanwhile.

    Args:
        engine: of this proc.
        test: of the library's request.
        keep: what must live until it is done.
        context: of a collective, the only one that is under way there; others may refuse it.

    Raises:
        Exception: what the library has found, in its own words; ERR_OTHER and so on where others have refused it.
    """
    operation: PromptOperation | None = None
    try:
        if engine.ask(test):
            return
        operation = PromptOperation(test, keep, context)
        if context is not None:
            context.waiting += 1  # a message of this client may say that it fails
        try:
            engine.track(operation)
            engine.wait(lambda: operation.done)
        finally:
            if context is not None:
                context.waiting -= 1
    except BaseException:
        # An interrupt; whoever has called this abandons the call itself.
        if operation is not None:
            operation.abandon()
        raise
    if operation.failure is not None:
        raise operation.failure
