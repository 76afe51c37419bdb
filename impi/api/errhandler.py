"""Errhandler: what happens when an MPI call fails. In Python every failure raises an Exception; the handler
decides first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakSet

from impi.api import runtime
from impi.api.handle import Handle, State
from impi.semantics.constants import SUCCESS
from impi.semantics.errors import error

__all__ = ["ERRHANDLER_NULL", "ERRORS_ABORT", "ERRORS_ARE_FATAL", "ERRORS_RETURN", "Errhandler"]


_MOST: Final = 32
_made: Final[dict[str, WeakSet[_Handler]]] = {}


class _Handler(State):
    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any, int], None] | None) -> None:
        super().__init__()
        self.function = function


class Errhandler(Handle):
    """Error handler; null when made without arguments."""

    @classmethod
    def _create(cls, function: Callable[[Any, int], None], kind: str) -> Errhandler:
        """One that calls ``function(object, errorcode)``, for objects of a kind.

        Raises:
            RuntimeError: there are 32 of this kind, the most that mpi4py has.
        """
        if not callable(function):
            raise TypeError("an error handler must be callable")
        made = _made.setdefault(kind, WeakSet())
        if len(made) >= _MOST:
            raise RuntimeError(f"there are {_MOST} error handlers for {kind}s, which is the most; free some")
        handler = _Handler(function)
        made.add(handler)
        return cls._wrap(handler)

    def _call(self, owner: Any, errorcode: int) -> None:
        """Do what the handler does about an error of ``owner``."""
        if self._state is None:
            raise error("ERR_ERRHANDLER", "null error handler")
        function = self._handler_function()
        if function is not None:
            function(owner, errorcode)
        elif self in (ERRORS_ABORT, ERRORS_ARE_FATAL) and errorcode != SUCCESS:
            runtime.abort(errorcode)

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
        self._forget()


ERRHANDLER_NULL: Final = Errhandler._define("ERRHANDLER_NULL", None)
ERRORS_RETURN: Final = Errhandler._define("ERRORS_RETURN", _Handler(None))
ERRORS_ABORT: Final = Errhandler._define("ERRORS_ABORT", _Handler(None))
ERRORS_ARE_FATAL: Final = Errhandler._define("ERRORS_ARE_FATAL", _Handler(None))
