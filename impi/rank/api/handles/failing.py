"""The guard of public calls: it handles each failure before the program sees it.

* An MPI.Exception calls the error handler of the communicator or session once (MPI 4.1, 9.3); for
  calls without either, COMM_SELF's. The exception goes on if a user handler returns.
* Integer arguments are converted first, as in mpi4py (:mod:`impi.rank.api.handles.integers`).
* A collective that cannot begin is refused, so the others learn it
  (:mod:`impi.rank.engine.faults`).
* An :class:`impi.base.errors.ImpiError` ends the job here: no ``except`` or ``finally`` runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection
from functools import wraps
from types import FrameType, FunctionType
from typing import Any, Final, NoReturn, Protocol, TypeVar

import impi
from impi.base.errors import ImpiError
from impi.protocol.semantics.errors import LackingError, MPIException
from impi.rank.api import runtime
from impi.rank.api.handles.integers import converter

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

_PACKAGE: Final = os.path.dirname(impi.__file__)  # noqa: PTH120  (pathlib costs some ms of every start)


class ErrorHandler(Protocol):
    """The part of :class:`impi.rank.api.handles.errhandler.Errhandler` that this module needs."""

    def _call(
        self, owner: Owner, errorcode: int, failure: MPIException | None = None
    ) -> None: ...
    def _is_fatal(self) -> bool: ...


class Owner(Protocol):
    """An MPI object that has an error handler."""

    @property
    def errhandler(self) -> ErrorHandler: ...

    def new_handle(self) -> Any: ...


_default_owner: Owner | None = None


def set_default_owner(owner: Owner) -> None:
    """Set the owner (COMM_SELF's object) for calls without an object that has a handler."""
    global _default_owner
    _default_owner = owner


def handle(failure: MPIException, owner: Owner | None) -> None:
    """Call the error handler of ``owner``, unless this failure was handled before."""

    # A failure passes the guards of all our methods on the stack, and the innermost calls the
    # handler.
    if failure.handled:
        return

    failure.handled = True
    if owner is None:
        owner = _default_owner

    if owner is not None and not runtime.finalized():
        owner.errhandler._call(owner, int(failure), failure)


def failed(failure: ImpiError | MPIException, owner: Owner | None, call: str) -> None:
    """Handle a failure in an ``_unguarded`` method, which raises it again; it saves the guard."""
    if isinstance(failure, ImpiError):
        runtime.fail(failure)

    failure.call = failure.call or call
    handle(failure, owner)


def guarded(cls: C) -> C:
    """Guard all public methods and properties of a class, except those in ``_unguarded``."""
    return _guard(cls, ())


def guarded_collective(*names: str) -> Callable[[C], C]:
    """Guard a class; methods in ``names`` (default: all) are collective."""
    return lambda cls: _guard(cls, names or tuple(vars(cls)))


def guarded_function(function: F) -> F:
    """Guard a function of the module."""

    convert = converter(function, 0)

    @wraps(function)
    def method(_: None, *args: Any, **kwargs: Any) -> Any:
        if convert is not None:
            args, kwargs = convert(args, kwargs)

        return function(*args, **kwargs)

    guarded_method = wrapped(method)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return guarded_method(None, *args, **kwargs)

    return call  # type: ignore[return-value]


def _guard(cls: C, collective: Collection[str]) -> C:
    for name, member in list(vars(cls).items()):
        if name.startswith("_") or name in getattr(cls, "_unguarded", ()):
            continue

        # Not the unsupported ones
        if isinstance(member, FunctionType) and not member.__name__.startswith("MPI_"):
            setattr(cls, name, wrapped(member, collective=name in collective))
        elif isinstance(member, classmethod):
            setattr(cls, name, classmethod(wrapped(member.__func__)))
        elif isinstance(member, property):
            get, put, delete = (
                part and wrapped(part)
                for part in (member.fget, member.fset, member.fdel)
            )
            setattr(cls, name, property(get, put, delete, member.__doc__))

    return cls


def wrapped(function: Any, *, collective: bool = False) -> Any:
    """Wrap a method so that its failures are handled like those of an MPI call.

    The result has an attribute ``check``, None at first: a function of the object, the positional
    and the keyword arguments. It runs first in each call (:mod:`impi.rank.api.comms.verifier`).
    """
    convert = converter(function, 1)

    @wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            if guard.check is not None:
                guard.check(self, args, kwargs)
            if convert is not None:
                args, kwargs = convert(args, kwargs)
            return function(self, *args, **kwargs)
        except ImpiError as failure:
            runtime.fail(failure)
        except MPIException as failure:
            failure.call = failure.call or _called()
            handle(
                failure,
                None if isinstance(self, type) else getattr(self, "_owner", None),
            )
            raise

    @wraps(function)
    def collective_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        context = self._context
        # `begun` tells whether the operation has begun when the failure comes: a call that has sent
        # nothing can be refused.
        faults: Any = None if context is None else context.faults
        begun = 0 if faults is None else faults.begun
        try:
            if guard.check is not None:
                guard.check(self, args, kwargs)
                # The check was a collective of its own: the call itself may still be refused.
                begun = faults.begun
            if convert is not None:
                args, kwargs = convert(args, kwargs)
            return function(self, *args, **kwargs)
        except ImpiError as failure:
            runtime.fail(failure)
        except Exception as failure:
            known = failure if isinstance(failure, MPIException) else None
            # Fatal errors end the job, which tells the others. After Finalize no proc listens.
            if (
                faults is not None
                and faults.begun == begun
                and not runtime.finalized()
                and not (known and self._owner.errhandler._is_fatal())
            ):
                faults.refuse(_called(), failure)
            if known:
                known.call = known.call or _called()
                handle(known, self._owner)
            raise

    guard: Any = collective_call if collective else call
    guard.check = None
    return guard


def unsupported(name: str, why: str) -> Callable[..., NoReturn]:
    """Return a function or method of MPI that impi lacks: it raises NotImplementedError."""

    def call(*args: Any, **kwargs: Any) -> NoReturn:
        raise LackingError(f"{name} is not supported: {why}")

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Not supported: {why}."

    return call


def lacking(what: str, why: str, **calls: str) -> Callable[[C], C]:
    """Let a class refuse calls: its methods by name, and their names in MPI."""

    def refusing(cls: C) -> C:
        for name, call in calls.items():
            setattr(cls, name, unsupported(f"{call} of {what}", why))

        return cls

    return refusing


def _called() -> str:
    """Return the name of the outermost of our methods: ``Recv`` calls others."""

    name = ""

    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        # The frames of the guards are those of this file that have the guarded function.
        if frame.f_code.co_filename == __file__ and "function" in frame.f_locals:
            name = frame.f_locals["function"].__name__

        frame = frame.f_back

    return name
