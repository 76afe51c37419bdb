"""Tables of handles: numbers in C, objects of impi.MPI here.

Predefined objects have the ABI's values. Others get numbers from one counter for all kinds, above
the values that the standard ABI reserves, so a handle of a wrong kind is not valid by chance. In
MPICH's ABI a handle is an int, so freed numbers are used again.

C keeps a copy of some facts (rank, size, octets of a datatype) to answer without Python. A table
that tells C of a new handle also tells it when the handle is freed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Final

from impi.cabi.objects import link
from impi.cabi.objects.link import Object, Pointer
from impi.cabi.tables.abi import FIRST
from impi.protocol.semantics.errors import error

_INT_MAX: Final = 2**31 - 1
_counter: Final = count(*(FIRST[link.abi.name] if link.front else (0x10000, 1)))
_freed: Final[list[int]] = []


class Table(dict[int, Object]):
    """Objects by number.

    Args:
        name: the kind, as in its error class: COMM for ERR_COMM.
        predefined: objects by the names of their constants; the null object's ends with NULL.
    """

    def __init__(self, name: str, predefined: dict[str, Object]) -> None:
        super().__init__()
        self.error, self._name = f"ERR_{name}", name.lower()
        self._constants: dict[Object, int] = {}

        self.null = 0
        for constant, item in predefined.items():
            if constant not in link.abi.constants:
                continue

            number = link.constant(constant)

            self[number] = item
            if item._state is None and constant.endswith("NULL"):
                self.null = number
            else:
                # Some datatypes have two names. The program gets the value of the first.
                self._constants.setdefault(item._state, number)

        self._predefined = frozenset(self)

    def __missing__(self, number: int) -> Object:
        raise error(
            self.error,
            f"{number:#x} is not a {self._name}: it is not initialised, or it was freed",
        )

    def put(self, item: Object) -> int:
        """Return a handle for an object that the program gets: a new one unless predefined."""

        state = item._state
        if state is None:
            return self.null

        known = self._constants.get(state)
        if known is not None:
            return known

        number = self.numbered(item)
        self[number] = item

        return number

    def numbered(self, item: Object) -> int:
        return _freed.pop() if _freed else next(_counter)

    def ended(self, number: int, item: Object) -> int:
        """Forget the handle of an object that is gone; return the handle to write in its place."""
        self.drop(number)
        return self.null

    def each(self, numbers: Iterable[int]) -> list[Object]:
        return [self[number] for number in numbers]

    def number_of(self, item: Object) -> int:
        """Return the program's handle of an object; a new one if it has none."""
        number = self.known(item)
        return self.put(item) if number is None else number

    def known(self, item: Object) -> int | None:
        state = item._state
        if state is None:
            return self.null

        if state in self._constants:
            return self._constants[state]

        # By state: a call may return a new object around the state of one that the program has.
        return next(
            (number for number, other in list(self.items()) if other._state is state),
            None,
        )

    def settle(self, place: Pointer, item: Object) -> None:
        """Write the null handle to ``place`` if the object is gone, and forget its handle."""
        if item._state is None:
            place[0] = self.ended(place[0], item)

    def settle_failed(self, place: Pointer) -> None:
        item = self.get(place[0]) if place else None
        if item is not None:
            self.settle(place, item)

    def drop(self, number: int) -> None:
        if number not in self._predefined and self.pop(number, None) is not None:
            self.reuse(number)

    def reuse(self, number: int) -> None:
        """Let a later object have a freed handle, unless the handle is the vendor's."""
        if not link.front or link.lib.impi_is_ours(number):
            _freed.append(number)


class _Known(Table):
    def put(self, item: Object) -> int:
        number = super().put(item)
        self.know(number, item)
        return number

    def know(self, number: int, item: Object) -> None:
        raise NotImplementedError

    def drop(self, number: int) -> None:
        # C first: stubs read without a lock, and the number may be another object's a moment later.
        link.lib.impi_know(number, -1, 0, 0)
        super().drop(number)


class Comms(_Known):
    """Communicators: C knows their ranks and sizes, and which are intercommunicators."""

    def know(self, number: int, item: Object) -> None:
        state = item._state
        if state is not None and state.context is not None:
            context = state.context
            link.lib.impi_know(
                number, context.rank, len(context.members), context.is_inter
            )


class Datatypes(_Known):
    """Datatypes: C knows the octets of an element, where an int can hold them."""

    def know(self, number: int, item: Object) -> None:
        if item._state is not None and (size := item.typemap.size) <= _INT_MAX:
            link.lib.impi_know(number, size, 1, 0)


class Errhandlers(Table):
    """Error handlers."""


class Requests(Table):
    """Requests."""
