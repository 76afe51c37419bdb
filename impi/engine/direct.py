"""The user's memory itself as what a message carries, where octets are the same in every form (MPI_BYTE)."""

from __future__ import annotations

__all__ = ["DirectSource", "DirectTarget"]


class DirectSource:
    """Octets to send; as :class:`impi.engine.payload.BufferSource` of so many elements of one octet."""

    __slots__ = ("_view", "count")

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self.count = len(view)

    def octets(self, *, external: bool) -> memoryview:
        """The memory."""
        return self._view

    def views(self, *, external: bool, shortest: int = 0) -> list[memoryview]:
        """The same."""
        return [self._view]


class DirectTarget:
    """Room for octets; as :class:`impi.engine.payload.BufferTarget` of so many elements of one octet."""

    __slots__ = ("view",)

    def __init__(self, view: memoryview) -> None:
        self.view = view

    def capacity(self, *, external: bool) -> int:
        """All of it."""
        return len(self.view)

    def landing(self, nbytes: int, *, external: bool) -> memoryview:
        """Its beginning."""
        return self.view[:nbytes]

    def places(self, nbytes: int, *, external: bool, shortest: int = 0) -> list[memoryview] | None:
        """None: one is enough."""
        return None

    def finish(self, nbytes: int, count: int, *, external: bool) -> None:
        """Nothing to do: the octets are where they belong."""

    def native_size(self, nbytes: int, *, external: bool) -> int:
        """As many."""
        return nbytes
