"""The payload of a message, for the engine: octets to send, and places for received octets.

How it works: a *source* gives octets or pieces of memory, a *target* gives places and finishes the
message once they are filled. Neither knows sockets or matching. A message to a proc of the same
client has native form. Any other is external32, unless ``Engine.external`` is False. So a payload
offers both and makes each only on demand.
"""

from __future__ import annotations

from typing import Protocol

from impi.protocol.semantics.errors import error
from impi.protocol.semantics.values.blocks import SHORTEST
from impi.protocol.semantics.values.datatype import TypeMap


class Source(Protocol):
    """Octets to send."""

    count: int
    """Number of elements, for pk_count; 0 if unknown."""

    def octets(self, *, external: bool) -> memoryview:
        """Return the message in external32 or native form; valid as long as the source lives."""

    def views(self, *, external: bool, shortest: int = SHORTEST) -> list[memoryview]:
        """Return pieces, of user memory if not converted and on the average ``shortest`` long."""


class Target(Protocol):
    """Places for the octets of a received message."""

    def capacity(self, *, external: bool) -> int | None:
        """Return the most octets that fit; None: any number."""

    def landing(self, nbytes: int, *, external: bool) -> memoryview:
        """Return a writable place for exactly ``nbytes`` octets."""

    def places(
        self, nbytes: int, *, external: bool, shortest: int = SHORTEST
    ) -> list[memoryview] | None:
        """Return the final places, where :meth:`Source.views` would be user memory; else None."""

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """Convert and move octets that are complete in the landing."""

    def native_size(self, nbytes: int, *, external: bool) -> int:
        """Return the octets in native form of ``nbytes`` octets of the message, as in a status."""


class OctetSource:
    """Octets that are equal in every form: pickles, packed data."""

    __slots__ = ("_view", "count")

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        self._view = memoryview(data).cast("B")
        self.count = 0

    def octets(self, *, external: bool) -> memoryview:
        return self._view

    def views(self, *, external: bool, shortest: int = SHORTEST) -> list[memoryview]:
        return [self._view]


class OctetTarget:
    """Takes a message of any length into its own memory: :attr:`data`."""

    def __init__(self) -> None:
        self.data = bytearray()

    def capacity(self, *, external: bool) -> int | None:
        return None

    def landing(self, nbytes: int, *, external: bool) -> memoryview:
        self.data = bytearray(nbytes)
        return memoryview(self.data)

    def places(
        self, nbytes: int, *, external: bool, shortest: int = SHORTEST
    ) -> list[memoryview] | None:
        return None

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """Nothing to do: octets need no conversion."""

    def native_size(self, nbytes: int, *, external: bool) -> int:
        return nbytes


class DirectSource(OctetSource):
    """User memory (format ``B``) as ``count`` elements that need no conversion on the way."""

    __slots__ = ()

    def __init__(self, view: memoryview, count: int) -> None:
        self._view = view
        self.count = count


class DirectTarget:
    """Room in user memory (format ``B``) for elements that need no conversion on the way."""

    __slots__ = ("view",)

    def __init__(self, view: memoryview) -> None:
        self.view = view

    def capacity(self, *, external: bool) -> int:
        return len(self.view)

    def landing(self, nbytes: int, *, external: bool) -> memoryview:
        return self.view[:nbytes]

    def places(
        self, nbytes: int, *, external: bool, shortest: int = SHORTEST
    ) -> list[memoryview] | None:
        return None

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """Nothing to do: the octets are where they belong."""

    def native_size(self, nbytes: int, *, external: bool) -> int:
        return nbytes


class BufferSource:
    """``count`` elements of a datatype in a user's buffer."""

    def __init__(
        self,
        datatype: TypeMap,
        view: memoryview,
        offset: int,
        count: int,
        long_size: int,
    ) -> None:
        self._datatype = datatype
        self._view = view
        self._offset = offset
        self._long_size = long_size
        self._elements = count
        # Only of a predefined datatype, whose size on the wire the receiver checks by it
        # (BufferTarget._check).
        self.count = count if datatype.name else 0

    def octets(self, *, external: bool) -> memoryview:
        """Return the elements packed, or user memory if nothing needs conversion."""
        return self._datatype.pack(
            self._view,
            self._offset,
            self._elements,
            external=external,
            long_size=self._long_size,
        )

    def views(self, *, external: bool, shortest: int = SHORTEST) -> list[memoryview]:
        """Return blocks of the user's memory, or one packed piece."""
        # Pieces from 2048 octets on the average: packed, messages of such blocks took 1.23 times as
        # long with 64 KiB, and 1.80 times with 1 MiB (docs/decisions/derived-types-in-place.md).
        # IMPI_ZERO_COPY is the user's own number.
        pieces = None
        if not self._datatype.name:
            pieces = self._datatype.pieces(
                self._view,
                self._offset,
                self._elements,
                shortest,
                external=external,
                long_size=self._long_size,
            )

        return [self.octets(external=external)] if pieces is None else pieces


class BufferTarget:
    """Room for ``count`` elements of a datatype in a user's buffer."""

    def __init__(
        self,
        datatype: TypeMap,
        view: memoryview,
        offset: int,
        count: int,
        long_size: int,
    ) -> None:
        self._datatype = datatype
        self._view = view
        self._offset = offset
        self._count = count
        self._long_size = long_size
        # None: the octets go directly to their final places
        self._place: memoryview | None = None

    def capacity(self, *, external: bool) -> int | None:
        """Return the packed size of the elements that fit."""
        return self._datatype.packed_size(
            self._count, external=external, long_size=self._long_size
        )

    def landing(self, nbytes: int, *, external: bool) -> memoryview:
        """Return user memory if the wire form fits in place, else new memory."""

        place = self._datatype.landing(
            self._view,
            self._offset,
            self._count,
            external=external,
            long_size=self._long_size,
        )
        # The form on the wire does not fit in place, so it lands apart, and finish() converts it.
        if place is None:
            place = memoryview(bytearray(nbytes))

        self._place = place[:nbytes]

        return self._place

    def places(
        self, nbytes: int, *, external: bool, shortest: int = SHORTEST
    ) -> list[memoryview] | None:
        """Return blocks of user memory for whole elements; None: the message ends inside one."""

        if self._datatype.name:
            return None

        size = self._datatype.packed_size(
            1, external=external, long_size=self._long_size
        )

        # A message that ends inside an element has no whole pieces; unpacking handles it.
        whole, rest = divmod(nbytes, size) if size else (0, 1)
        if rest or not whole:
            return None

        # Checked before the pieces reach a socket: it would write wherever they are.
        self._datatype.inside(self._view, self._offset, self._count)
        self._place = None

        return self._datatype.pieces(
            self._view,
            self._offset,
            whole,
            shortest,
            external=external,
            long_size=self._long_size,
        )

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """Unpack; convert in place if the octets are in user memory already."""
        if external:
            self._check(nbytes, count)

        if self._place is None:
            return

        self._datatype.unpack(
            self._place,
            self._view,
            self._offset,
            self._count,
            external=external,
            long_size=self._long_size,
        )

    def native_size(self, nbytes: int, *, external: bool) -> int:
        """Return the size as elements of the datatype."""
        return self._datatype.native_size(
            nbytes, external=external, long_size=self._long_size
        )

    def _check(self, nbytes: int, count: int) -> None:
        """Raise ERR_TYPE if 4-octet MPI_LONG (IMPI 0.0) and 8-octet int64 are mixed."""
        # external32 has 4 octets for MPI_LONG, and numpy's int64 is a long in C. Without the
        # element count in the header (pk_count) the mistake would be nonsense values.
        expected = self._datatype.packed_size(
            1, external=True, long_size=self._long_size
        )

        sent, rest = divmod(nbytes, count) if count else (expected, 0)
        if rest == 0 and self._datatype.name in _LONGS and {sent, expected} == {4, 8}:
            raise error(
                "ERR_TYPE",
                f"{count} elements of {sent} bytes came for MPI_{self._datatype.name}, which has {expected} here: "
                "IMPI 0.0 sends MPI_LONG as 4 bytes; use MPI.INT64_T on both sides",
            )


_LONGS = frozenset(
    {"LONG", "UNSIGNED_LONG", "INT64_T", "UINT64_T", "LONG_LONG", "UNSIGNED_LONG_LONG"}
)
