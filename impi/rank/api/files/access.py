"""Reads and writes of a file: all calls on its data (MPI 4.1, 14.4).

How it works: MPI has the same accesses at explicit offsets, at a proc's own pointer and at the
shared pointer: one class each. A call chooses pointer, direction and whether the access is
collective, and one method of the file's object does the rest. ``_begin`` does all the work of a
split collective, which MPI allows, and ``_end`` only gives the status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from impi.protocol.semantics.errors import error
from impi.rank.api.handles.failing import guarded
from impi.rank.api.p2p.request import Request, ended

if TYPE_CHECKING:
    from impi.rank.api.files.filestate import FileState
    from impi.rank.api.p2p.status import Status
    from impi.rank.api.types.specs import BufferSpec


class _Accesses:
    """The common part of all calls on data; :class:`impi.rank.api.files.file.File` has the file.

    Names tell the kind of a call: ``_all`` and ``_ordered`` are collective, ``I`` is non-blocking,
    and ``_begin`` and ``_end`` are the halves of a split collective. Offsets are etypes of the
    view. A status has the octets that were read or written: fewer than were asked for at the end of
    the file. Non-blocking calls access the file at once, so their requests are complete; no proc
    waits for another in them. Exception of all: ``ERR_FILE``: null or closed; ``ERR_READ_ONLY`` or
    ``ERR_ACCESS``: forbidden by the access mode; ``ERR_ARG``: negative offset; ``ERR_IO``: no whole
    etypes, or an error of the system; ``ERR_NO_SPACE``.
    """

    def _live(self) -> FileState:
        raise NotImplementedError

    def _begin(self, call: str, move: Callable[[], int]) -> None:
        state = self._live()
        if state.split is not None:
            raise error(
                "ERR_IO",
                f"a file has one split collective at a time, and {state.split[0]}_begin has no end yet",
            )

        # The Begin does all of the work, as MPI allows, and the End waits for no rank.
        state.split = (call, move())

    def _end(self, call: str, status: Status | None) -> None:
        state = self._live()
        if state.split is None or state.split[0] != call:
            begun = "none" if state.split is None else f"{state.split[0]}_begin"
            raise error(
                "ERR_IO", f"{call}_end ends {call}_begin, but {begun} was called before"
            )

        nbytes, state.split = state.split[1], None
        _fill(status, nbytes)


@guarded
class AtOffsets(_Accesses):
    """Accesses at explicit offsets."""

    def _at(self, offset: int, buf: BufferSpec, *, writes: bool) -> int:
        state = self._live()
        return state.transfer(buf, state.explicit(offset), writes=writes)

    def _at_all(self, offset: int, buf: BufferSpec, *, writes: bool) -> int:
        state = self._live()
        return state.collectively(buf, state.explicit(offset), writes=writes)

    def Read_at(
        self, offset: int, buf: BufferSpec, status: Status | None = None
    ) -> None:
        _fill(status, self._at(offset, buf, writes=False))

    def Read_at_all(
        self, offset: int, buf: BufferSpec, status: Status | None = None
    ) -> None:
        _fill(status, self._at_all(offset, buf, writes=False))

    def Iread_at(self, offset: int, buf: BufferSpec) -> Request:
        return ended(self._at(offset, buf, writes=False))

    def Iread_at_all(self, offset: int, buf: BufferSpec) -> Request:
        # Not exchanged: a non-blocking call must not wait for other procs.
        return ended(self._at(offset, buf, writes=False))

    def Read_at_all_begin(self, offset: int, buf: BufferSpec) -> None:
        self._begin("Read_at_all", lambda: self._at_all(offset, buf, writes=False))

    def Read_at_all_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        self._end("Read_at_all", status)

    def Write_at(
        self, offset: int, buf: BufferSpec, status: Status | None = None
    ) -> None:
        _fill(status, self._at(offset, buf, writes=True))

    def Write_at_all(
        self, offset: int, buf: BufferSpec, status: Status | None = None
    ) -> None:
        _fill(status, self._at_all(offset, buf, writes=True))

    def Iwrite_at(self, offset: int, buf: BufferSpec) -> Request:
        return ended(self._at(offset, buf, writes=True))

    def Iwrite_at_all(self, offset: int, buf: BufferSpec) -> Request:
        return ended(self._at(offset, buf, writes=True))

    def Write_at_all_begin(self, offset: int, buf: BufferSpec) -> None:
        self._begin("Write_at_all", lambda: self._at_all(offset, buf, writes=True))

    def Write_at_all_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        self._end("Write_at_all", status)


@guarded
class AtIndividual(_Accesses):
    """Accesses at the individual pointer."""

    def _next(self, buf: BufferSpec, *, writes: bool) -> int:
        state = self._live()
        return state.transfer(buf, state.own_pointer(), writes=writes)

    def _next_all(self, buf: BufferSpec, *, writes: bool) -> int:
        state = self._live()
        return state.collectively(buf, state.own_pointer(), writes=writes)

    def Read(self, buf: BufferSpec, status: Status | None = None) -> None:
        _fill(status, self._next(buf, writes=False))

    def Read_all(self, buf: BufferSpec, status: Status | None = None) -> None:
        _fill(status, self._next_all(buf, writes=False))

    def Iread(self, buf: BufferSpec) -> Request:
        return ended(self._next(buf, writes=False))

    def Iread_all(self, buf: BufferSpec) -> Request:
        return ended(self._next(buf, writes=False))

    def Read_all_begin(self, buf: BufferSpec) -> None:
        self._begin("Read_all", lambda: self._next_all(buf, writes=False))

    def Read_all_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        self._end("Read_all", status)

    def Write(self, buf: BufferSpec, status: Status | None = None) -> None:
        _fill(status, self._next(buf, writes=True))

    def Write_all(self, buf: BufferSpec, status: Status | None = None) -> None:
        _fill(status, self._next_all(buf, writes=True))

    def Iwrite(self, buf: BufferSpec) -> Request:
        return ended(self._next(buf, writes=True))

    def Iwrite_all(self, buf: BufferSpec) -> Request:
        return ended(self._next(buf, writes=True))

    def Write_all_begin(self, buf: BufferSpec) -> None:
        self._begin("Write_all", lambda: self._next_all(buf, writes=True))

    def Write_all_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        self._end("Write_all", status)


@guarded
class AtShared(_Accesses):
    """Accesses at the shared pointer; ordered ones in the order of ranks."""

    def _shared(self, buf: BufferSpec, *, writes: bool) -> int:
        state = self._live()
        return state.transfer(buf, state.shared, writes=writes)

    def _ordered(self, buf: BufferSpec, *, writes: bool) -> int:
        return self._live().ordered(buf, writes=writes)

    def Read_shared(self, buf: BufferSpec, status: Status | None = None) -> None:
        _fill(status, self._shared(buf, writes=False))

    def Iread_shared(self, buf: BufferSpec) -> Request:
        return ended(self._shared(buf, writes=False))

    def Read_ordered(self, buf: BufferSpec, status: Status | None = None) -> None:
        _fill(status, self._ordered(buf, writes=False))

    def Read_ordered_begin(self, buf: BufferSpec) -> None:
        self._begin("Read_ordered", lambda: self._ordered(buf, writes=False))

    def Read_ordered_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        self._end("Read_ordered", status)

    def Write_shared(self, buf: BufferSpec, status: Status | None = None) -> None:
        _fill(status, self._shared(buf, writes=True))

    def Iwrite_shared(self, buf: BufferSpec) -> Request:
        return ended(self._shared(buf, writes=True))

    def Write_ordered(self, buf: BufferSpec, status: Status | None = None) -> None:
        _fill(status, self._ordered(buf, writes=True))

    def Write_ordered_begin(self, buf: BufferSpec) -> None:
        self._begin("Write_ordered", lambda: self._ordered(buf, writes=True))

    def Write_ordered_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        self._end("Write_ordered", status)


def _fill(status: Status | None, nbytes: int) -> None:
    if status is not None:
        status.fill(nbytes=nbytes)
