"""The view that reductions have of values: a function that combines two, and perhaps their parts.

:class:`Reduction` is an MPI_Op for one kind of value. The api makes it from an operation and a
datatype; the algorithms of chapter 4 know values only through it. Plain trees use ``combine`` and
``copy``. Algorithms that cut values (elimination, reproducible parts) need ``elements`` as well,
and local phases run by an MPI library need ``library``.

Invariants: ``combine`` overwrites at most its second argument (``onto`` its first), so an
algorithm copies a value of its caller before it combines into it. The operands come in rank order
unless ``commutative``. An element has as many octets at every client, so all processes cut values
at the same places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from impi.base.records import record

V = TypeVar("V")


def _same(value: V) -> V:
    return value


@record
class Elements(Generic[V]):
    """Values as sequences of elements that are combined one by one, so that parts combine too."""

    octets: int
    """Octets of one element between clients, the same at all of them."""
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
    """``combine(invec, inoutvec)`` returns ``invec op inoutvec``, perhaps ``inoutvec`` in place."""
    commutative: bool = True
    copy: Callable[[V], V] = _same
    """Return a value that :attr:`combine` may overwrite; the default suits one that never does."""
    library: tuple[str, str] | None = None
    """The operation's and the element's names in MPI libraries; None if these lack either."""
    onto: Callable[[V, V], V] | None = None
    """``onto(invec, inoutvec)`` is :attr:`combine` in the place of ``invec``; None: only the other
    place is possible.
    """
    elements: Elements[V] | None = None
    """None: values cannot be cut, and a process does not know the size of another one's."""
