"""Errhandler: what happens when an MPI call fails. In Python every failure raises an Exception; the handler
decides first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from impi.api.handle import Handle, State
from impi.semantics.errors import error

__all__ = ["ERRHANDLER_NULL", "ERRORS_ABORT", "ERRORS_ARE_FATAL", "ERRORS_RETURN", "Errhandler"]


class _Handler(State):
    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any, int], None] | None) -> None:
        super().__init__()
        self.function = function


class Errhandler(Handle):
    """Error handler; null when made without arguments."""

    @classmethod
    def _create(cls, function: Callable[[Any, int], None]) -> Errhandler:
        """One that calls ``function(object, errorcode)``."""
        if not callable(function):
            raise TypeError("an error handler must be callable")
        return cls._wrap(_Handler(function))

    def _handler_function(self) -> Callable[[Any, int], None] | None:
        """What to call; None for null and predefined ones."""
        return self._state.function if isinstance(self._state, _Handler) else None

    def Free(self) -> None:
        """Free the handler; predefined ones are freed in name only.

        Raises:
            Exception: ``ERR_ERRHANDLER``, it is null.
        """
        if self._state is None:
            raise error("ERR_ERRHANDLER", "null error handler")
        super().Free()


ERRHANDLER_NULL: Final = Errhandler._define("ERRHANDLER_NULL", None)
ERRORS_RETURN: Final = Errhandler._define("ERRORS_RETURN", _Handler(None))
ERRORS_ABORT: Final = Errhandler._define("ERRORS_ABORT", _Handler(None))
ERRORS_ARE_FATAL: Final = Errhandler._define("ERRORS_ARE_FATAL", _Handler(None))
