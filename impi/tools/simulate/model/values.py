"""Values without content, for the algorithms of chapter 4, which never look at contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

from impi.protocol.collectives import Fixed, Octets


@dataclass(frozen=True, slots=True)
class Extent:
    """A value that is only a number of octets."""

    nbytes: int


def nbytes(value: Any) -> int:
    """Return the octets of a value on the wire."""
    return value.nbytes if isinstance(value, Extent | memoryview) else len(value)


class Same(Sequence[Any]):
    """One value, repeated."""

    __slots__ = ("_length", "_value")

    def __init__(self, value: object, length: int) -> None:
        self._value, self._length = value, length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> Same: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return Same(self._value, len(range(*at.indices(self._length))))

        if not -self._length <= at < self._length:
            raise IndexError(at)

        return self._value


class Blank(Fixed):
    """Unread pieces of one size: a join is a number, but one piece is octets, to concatenate."""

    __slots__ = ()

    def join(self, pieces: Sequence[Any], ranks: Sequence[int]) -> Any:
        return (
            memoryview(bytes(self.size))
            if len(ranks) == 1
            else Extent(self.size * len(ranks))
        )

    def split(self, octets: Octets | Extent, ranks: Sequence[int]) -> Any:
        assert nbytes(octets) == self.size * len(ranks), "pieces were lost"
        return Same(Extent(self.size), len(ranks))


class Zeros(Blank):
    """Blanks with real octets, for algorithms that cut and join received values."""

    __slots__ = ()

    def join(self, pieces: Sequence[Any], ranks: Sequence[int]) -> Any:
        return memoryview(bytes(self.size * len(ranks)))
