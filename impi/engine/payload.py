"""What a message carries, seen by the engine: octets to send, and places where received octets go.

A message to a proc of the same client travels in native form, any other as external32 (unless ``Engine.external`` is
False); so a payload offers both and makes each only when it is asked for.
"""

from __future__ import annotations

from typing import Protocol

from impi.semantics.blocks import SHORTEST
from impi.semantics.datatype import TypeMap
from impi.semantics.errors import error

__all__ = [
    "BufferSource",
    "BufferTarget",
    "DirectSource",
    "DirectTarget",
    "OctetSource",
    "OctetTarget",
    "Source",
    "Target",
]


class Source(Protocol):
    """Octets to send."""

    count: int
    """Number of elements, for pk_count; 0 where it says nothing."""

    def octets(self, *, external: bool) -> memoryview:
        """The message, as external32 or in native form. Stays valid as long as the source lives."""
        ...

    def views(self, *, external: bool, shortest: int = SHORTEST) -> list[memoryview]:
        """The same in pieces, which lie in the user's memory where nothing is converted and they have, on the average,
        ``shortest`` octets.
        """
        ...


class Target(Protocol):
    """Where a message goes."""

    def capacity(self, *, external: bool) -> int | None:
        """Most octets it takes, or None for any number."""
        ...

    def landing(self, nbytes: int, *, external: bool) -> memoryview:
        """A writable place for exactly ``nbytes`` octets."""
        ...

    def places(self, nbytes: int, *, external: bool, shortest: int = SHORTEST) -> list[memoryview] | None:
        """In place of :meth:`landing`, on the conditions of :meth:`Source.views`: their final places; else None."""
        ...

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """All octets are in the landing: bring them to their final form and place."""
        ...

    def native_size(self, nbytes: int, *, external: bool) -> int:
        """How many octets in native form ``nbytes`` of the message are: what a status counts."""
        ...


class OctetSource:
    """Octets that are the same in every form: pickles, packed data."""

    __slots__ = ("_view", "count")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._view = memoryview(data).cast("B")
        self.count = 0

    def octets(self, *, external: bool) -> memoryview:
        """The octets themselves."""
        return self._view

    def views(self, *, external: bool, shortest: int = SHORTEST) -> list[memoryview]:
        """One."""
        return [self._view]


class OctetTarget:
    """Takes a message of any length into memory of its own: :attr:`data`."""

    def __init__(self) -> None:
        self.data = bytearray()

    def capacity(self, *, external: bool) -> int | None:
        """Any number."""
        return None

    def landing(self, nbytes: int, *, external: bool) -> memoryview:
        """Fresh memory."""
        self.data = bytearray(nbytes)
        return memoryview(self.data)

    def places(self, nbytes: int, *, external: bool, shortest: int = SHORTEST) -> list[memoryview] | None:
        """None: one is enough."""
        return None

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """Nothing to do: octets need no conversion."""

    def native_size(self, nbytes: int, *, external: bool) -> int:
        """As many."""
        return nbytes


class DirectSource(OctetSource):
    """The user's memory (format ``B``) as elements of one octet (MPI_BYTE)."""

    __slots__ = ()

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self.count = len(view)


class DirectTarget:
    """Room in the user's memory (format ``B``) for elements of one octet (MPI_BYTE)."""

    __slots__ = ("view",)

    def __init__(self, view: memoryview) -> None:
        self.view = view

    def capacity(self, *, external: bool) -> int:
        """All of the memory."""
        return len(self.view)

    def landing(self, nbytes: int, *, external: bool) -> memoryview:
        """Its beginning."""
        return self.view[:nbytes]

    def places(self, nbytes: int, *, external: bool, shortest: int = SHORTEST) -> list[memoryview] | None:
        """None: one is enough."""
        return None

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """Nothing to do: the octets are where they belong."""

    def native_size(self, nbytes: int, *, external: bool) -> int:
        """As many."""
        return nbytes


class BufferSource:
    """``count`` elements of a datatype in a user's buffer."""

    def __init__(self, datatype: TypeMap, view: memoryview, offset: int, count: int, long_size: int) -> None:
        self._datatype = datatype
        self._view = view
        self._offset = offset
        self._long_size = long_size
        self._elements = count
        self.count = count if datatype.name else 0

    def octets(self, *, external: bool) -> memoryview:
        """Packed; aliases the user's memory where nothing needs conversion."""
        return self._datatype.pack(
            self._view, self._offset, self._elements, external=external, long_size=self._long_size
        )

    def views(self, *, external: bool, shortest: int = SHORTEST) -> list[memoryview]:
        """Blocks of the user's memory, or all of it packed."""
        pieces = None
        if not self._datatype.name:
            pieces = self._datatype.pieces(
                self._view, self._offset, self._elements, shortest, external=external, long_size=self._long_size
            )
        return [self.octets(external=external)] if pieces is None else pieces


class BufferTarget:
    """Room for ``count`` elements of a datatype in a user's buffer."""

    def __init__(self, datatype: TypeMap, view: memoryview, offset: int, count: int, long_size: int) -> None:
        self._datatype = datatype
        self._view = view
        self._offset = offset
        self._count = count
        self._long_size = long_size
        self._place: memoryview | None = None
        """None: the octets come to their final places."""

    def capacity(self, *, external: bool) -> int | None:
        """The packed size of the elements that fit."""
        return self._datatype.packed_size(self._count, external=external, long_size=self._long_size)

    def landing(self, nbytes: int, *, external: bool) -> memoryview:
        """The user's own memory where the wire form fits in place, else fresh memory."""
        place = self._datatype.landing(
            self._view, self._offset, self._count, external=external, long_size=self._long_size
        )
        if place is None:
            place = memoryview(bytearray(nbytes))
        self._place = place[:nbytes]
        return self._place

    def places(self, nbytes: int, *, external: bool, shortest: int = SHORTEST) -> list[memoryview] | None:
        """Blocks of the user's memory, of whole elements: of others only whole basic ones are stored."""
        if self._datatype.name:
            return None
        size = self._datatype.packed_size(1, external=external, long_size=self._long_size)
        whole, rest = divmod(nbytes, size) if size else (0, 1)
        if rest or not whole:
            return None
        self._datatype.inside(self._view, self._offset, self._count)
        self._place = None
        return self._datatype.pieces(
            self._view, self._offset, whole, shortest, external=external, long_size=self._long_size
        )

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """Unpack, converting in place where the octets already lie in the user's memory."""
        if external:
            self._check(nbytes, count)
        if self._place is None:
            return
        self._datatype.unpack(
            self._place, self._view, self._offset, self._count, external=external, long_size=self._long_size
        )

    def native_size(self, nbytes: int, *, external: bool) -> int:
        """Read as elements of the datatype."""
        return self._datatype.native_size(nbytes, external=external, long_size=self._long_size)

    def _check(self, nbytes: int, count: int) -> None:
        """In an IMPI 0.0 job MPI_LONG has 4 octets and int64 has 8: mixing them must not bring nonsense."""
        expected = self._datatype.packed_size(1, external=True, long_size=self._long_size)
        sent, rest = divmod(nbytes, count) if count else (expected, 0)
        if rest == 0 and self._datatype.name in _LONGS and {sent, expected} == {4, 8}:
            raise error(
                "ERR_TYPE",
                f"{count} elements of {sent} bytes came for MPI_{self._datatype.name}, which has {expected} here: "
                "IMPI 0.0 sends MPI_LONG as 4 bytes; use MPI.INT64_T on both sides",
            )


_LONGS = frozenset({"LONG", "UNSIGNED_LONG", "INT64_T", "UINT64_T", "LONG_LONG", "UNSIGNED_LONG_LONG"})
