"""A table of handles: numbers in C, objects of impi.MPI here.

Predefined objects have the ABI's values. Others get numbers from one counter for all kinds, above
the values that the standard keeps for itself; freed ones are used again.
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
        name: of the kind, for the error: COMM is ERR_COMM.
        predefined: objects by the names of their constants; the null one has a name with NULL.
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
                self._constants.setdefault(item._state, number)
        self._predefined = frozenset(self)

    def __missing__(self, number: int) -> Object:
        raise error(self.error, f"{number:#x} is no {self._name}: it is not initialised, or it was freed")

    def put(self, item: Object) -> int:
        """Return the number of an object that the program gets: new unless it is predefined."""
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
        """Forget the number of an object that is gone; return what the program has instead."""
        self.drop(number)
        return self.null

    def each(self, numbers: Iterable[int]) -> list[Object]:
        return [self[number] for number in numbers]

    def number_of(self, item: Object) -> int:
        """Return the number under which the program knows an object; a new one if it has none."""
        number = self.known(item)
        return self.put(item) if number is None else number

    def known(self, item: Object) -> int | None:
        state = item._state
        if state is None:
            return self.null
        if state in self._constants:
            return self._constants[state]
        return next((number for number, other in list(self.items()) if other._state is state), None)

    def settle(self, place: Pointer, item: Object) -> None:
        """Write the null handle where an object is gone, and forget its number."""
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
        """Let a later object have a number that is free, unless it is the library's behind."""
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
        link.lib.impi_know(number, -1, 0, 0)
        super().drop(number)


class Comms(_Known):
    """Communicators: rank, size, and whether they are intercommunicators."""

    def know(self, number: int, item: Object) -> None:
        state = item._state
        if state is not None and state.context is not None:
            context = state.context
            link.lib.impi_know(number, context.rank, len(context.members), context.is_inter)


class Datatypes(_Known):
    """Datatypes: octets, and that they are known."""

    def know(self, number: int, item: Object) -> None:
        if item._state is not None and (size := item.typemap.size) <= _INT_MAX:
            link.lib.impi_know(number, size, 1, 0)


class Errhandlers(Table):
    """Error handlers."""


class Requests(Table):
    """Requests."""
