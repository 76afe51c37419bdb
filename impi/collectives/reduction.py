"""What a reduction needs to know about its values: how two become one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from impi.records import record

__all__ = ["Elements", "Reduction"]

V = TypeVar("V")


def _same(value: V) -> V:
    return value


@record
class Elements(Generic[V]):
    """How values are made of elements that are combined one by one, so that parts of values can be combined."""

    octets: int
    """Of one element between clients: the same at all of them."""
    count: Callable[[V], int]
    """Elements of a value; the same at all processes of an operation."""
    part: Callable[[V, int, int], V]
    """``part(value, start, end)``: some of them, as a value. It may be an alias."""
    join: Callable[[Sequence[V]], V]
    """Parts as one value, in their order."""

    def nbytes(self, value: V) -> int:
        """Octets of a value between clients."""
        return self.octets * self.count(value)


@record
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
    elements: Elements[V] | None = None
    """None: values are whole, and nobody knows the size of another process's."""
