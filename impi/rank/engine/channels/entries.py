"""The guard of every entry of the engine: one thread at a time
(:mod:`impi.rank.engine.channels.threads`).

An entry is a public function of the engine that a thread of the program calls, by the api or the C
interface, or that a helper thread calls. Each is marked here, and a test finds public functions
without a mark:

* :func:`entry` holds the lock, in a frame around the function.
* :func:`creation` does so for a constructor whose first argument is the engine.
* :func:`checked_entry` is for functions that every message calls, where a frame more would count.
  They hold the lock themselves, around all that they do; the test looks.
* :func:`any_thread` marks functions that touch nothing that another thread may change, or that are
  called within an entry only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, Final, ParamSpec, Protocol, TypeVar

from impi.rank.engine.channels.threads import Threads

MARK: Final = "_guarded_by"
"""Attribute of each marked function: the name of its mark."""

P = ParamSpec("P")
R = TypeVar("R")


class Guarded(Protocol):
    """An object with entries, or the engine itself."""

    @property
    def threads(self) -> Threads:
        """The threads of this proc."""


S = TypeVar("S", bound=Guarded)
E = TypeVar("E", bound=Guarded)
C = TypeVar("C")
F = TypeVar("F", bound=Callable[..., object])


def entry(function: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Guard a method: one thread at a time is in it, and in all others with a guard."""

    @wraps(function)
    def guarded(self: S, /, *args: P.args, **named: P.kwargs) -> R:
        with self.threads.lock:
            return function(self, *args, **named)

    setattr(guarded, MARK, "entry")

    return guarded


def creation(
    function: Callable[Concatenate[C, E, P], None],
) -> Callable[Concatenate[C, E, P], None]:
    """Guard a constructor; its first argument has the threads of this proc."""

    @wraps(function)
    def guarded(self: C, engine: E, /, *args: P.args, **named: P.kwargs) -> None:
        with engine.threads.lock:
            function(self, engine, *args, **named)

    setattr(guarded, MARK, "creation")

    return guarded


def checked_entry(function: F) -> F:
    """Mark a function that holds the lock itself."""
    setattr(function, MARK, "checked_entry")
    return function


def any_thread(function: F) -> F:
    """Mark a function that needs no guard; its docstring, or that of its class, says why."""
    setattr(function, MARK, "any_thread")
    return function
