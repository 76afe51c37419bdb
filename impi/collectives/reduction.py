"""What a reduction needs to know about its values: how two become one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Reduction"]

V = TypeVar("V")


def _same(value: V) -> V:
    return value


@dataclass(frozen=True, slots=True)
class Reduction(Generic[V]):
    """An MPI_Op on values of one kind."""

    combine: Callable[[V, V], V]
    """``combine(invec, inoutvec)`` is ``invec op inoutvec``. It may work in place on ``inoutvec`` and return that."""
    commutative: bool = True
    copy: Callable[[V], V] = _same
    """A value that :attr:`combine` may overwrite, so that the caller's own stays as it is. By default the value itself:
    right where :attr:`combine` never works in place."""
    library: tuple[str, str] | None = None
    """The names of the operation and of the element by which MPI libraries do the same, if they do."""
