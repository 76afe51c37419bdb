"""MPI calls that this implementation does not have: each raises an error with its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from impi.semantics.errors import LackingError


def unsupported(name: str, why: str) -> Callable[..., NoReturn]:
    """Return a function or method that raises NotImplementedError for any arguments."""

    def call(*args: Any, **kwargs: Any) -> NoReturn:
        raise LackingError(f"{name} is not supported: {why}")

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Not supported: {why}."
    return call
