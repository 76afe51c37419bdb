"""Errhandler: the action for a failed MPI call, before Python raises the Exception.

The program chooses the handler of new objects, as in mpi4py (:mod:`impi.rank.api.rc`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final
from weakref import WeakSet

from impi.protocol.semantics.constants import SUCCESS
from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api import runtime
from impi.rank.api.handles.failing import Owner, guarded
from impi.rank.api.handles.handle import Handle, State
from impi.rank.api.rc import choices

__all__ = [
    "ERRHANDLER_NULL",
    "ERRORS_ABORT",
    "ERRORS_ARE_FATAL",
    "ERRORS_RETURN",
    "Errhandler",
]


_MOST: Final = 32
_made: Final[dict[str, WeakSet[_Handler]]] = {}


class _Handler(State):
    __slots__ = ("function",)

    def __init__(self, function: Callable[[Any, int], None] | None) -> None:
        super().__init__()
        self.function = function


@guarded
class Errhandler(Handle):
    """Error handler; null when made without arguments."""

    @classmethod
    def _create(cls, function: Callable[[Any, int], None], kind: str) -> Errhandler:
        """Return a handler that calls ``function(object, errorcode)``, for objects of a kind.

        Raises:
            RuntimeError: 32 of this kind exist, mpi4py's limit.
        """

        if not callable(function):
            raise TypeError("an error handler must be callable")

        # Weak references: a handler that neither a handle nor an object has any more does not
        # count.
        made = _made.setdefault(kind, WeakSet())
        if len(made) >= _MOST:
            raise RuntimeError(
                f"there are {_MOST} error handlers for {kind}s, which is the most; free some"
            )

        handler = _Handler(function)
        made.add(handler)

        return cls._wrap(handler)

    def _call(
        self, owner: Owner, errorcode: int, failure: MPIException | None = None
    ) -> None:
        """Run the handler for an error of ``owner``; ``failure`` has more detail.

        A user function's handle is null afterwards (as in mpi4py); its exceptions end the job.
        """

        if self._state is None:
            raise error("ERR_ERRHANDLER", "null error handler")

        if self._is_fatal() and errorcode != SUCCESS:
            runtime.abort_on_error(failure or error(errorcode), errorcode)

        function = self._handler_function()
        if function is None:
            return

        subject = owner.new_handle()
        try:
            function(subject, errorcode)
        except BaseException:
            import traceback

            traceback.print_exc()
            runtime.abort_on_error(
                failure or error(errorcode), more="; its error handler failed, too"
            )
        finally:
            subject._state = None

    def _is_fatal(self) -> bool:
        return self in (ERRORS_ABORT, ERRORS_ARE_FATAL)

    def _handler_function(self) -> Callable[[Any, int], None] | None:
        return self._state.function if isinstance(self._state, _Handler) else None

    def Free(self) -> None:
        """Free the handler, predefined ones in name only; Exception ``ERR_ERRHANDLER``: null."""
        if self._state is None:
            raise error("ERR_ERRHANDLER", "null error handler")

        self._forget()


ERRHANDLER_NULL: Final = Errhandler._define("ERRHANDLER_NULL", None)
ERRORS_RETURN: Final = Errhandler._define("ERRORS_RETURN", _Handler(None))
ERRORS_ABORT: Final = Errhandler._define("ERRORS_ABORT", _Handler(None))
ERRORS_ARE_FATAL: Final = Errhandler._define("ERRORS_ARE_FATAL", _Handler(None))


@guarded
class HasErrhandler:
    """The error handler of a communicator, session or window, for the classes of their handles."""

    _kind: ClassVar[str]

    def _with_errhandler(self) -> Any:
        raise NotImplementedError

    @classmethod
    def Create_errhandler(cls, errhandler_fn: Callable[[Any, int], None]) -> Errhandler:
        return Errhandler._create(errhandler_fn, cls._kind)

    def Get_errhandler(self) -> Errhandler:
        """Return the handler that runs before an exception is raised; ERRORS_RETURN by default."""
        return Errhandler(self._with_errhandler().errhandler)

    def Set_errhandler(self, errhandler: Errhandler) -> None:
        state = self._with_errhandler()
        if not errhandler:
            raise error("ERR_ERRHANDLER", "null error handler")

        state.errhandler = Errhandler(errhandler)

    def Call_errhandler(self, errorcode: int) -> None:
        state = self._with_errhandler()
        state.errhandler._call(state, errorcode)


_HANDLERS: Final = {
    "exception": ERRORS_RETURN,
    "default": ERRORS_ARE_FATAL,
    "abort": ERRORS_ABORT,
    "fatal": ERRORS_ARE_FATAL,
}


def initial(parent: Errhandler | None = None) -> Errhandler:
    """Return the handler of a new object: the program's choice, its parent's, or MPI's default."""
    return Errhandler(
        parent
        if parent is not None and choices().errors == "default"
        else _HANDLERS[choices().errors]
    )
