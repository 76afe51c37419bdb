"""MPI calls that this implementation does not have: each raises an error with its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from impi.semantics.errors import LackingError

__all__ = ["Lookup_name", "Publish_name", "Unpublish_name"]


def unsupported(name: str, why: str) -> Callable[..., NoReturn]:
    """Return a function or method that raises NotImplementedError for any arguments."""

    def call(*args: Any, **kwargs: Any) -> NoReturn:
        raise LackingError(f"{name} is not supported: {why}")

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Not supported: {why}."
    return call


_FROM_THE_START = "the processes of a job of IMPI 0.0 are there from the start"

Publish_name = unsupported("MPI_Publish_name", _FROM_THE_START)
Unpublish_name = unsupported("MPI_Unpublish_name", _FROM_THE_START)
Lookup_name = unsupported("MPI_Lookup_name", _FROM_THE_START)
