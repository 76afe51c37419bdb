"""Reads and writes of a file: all calls on its data (MPI 4.1, 14.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from impi.api.handles.failing import guarded
from impi.api.p2p.request import Request, ended
from impi.semantics.errors import error

if TYPE_CHECKING:
    from impi.api.files.filestate import FileState
    from impi.api.p2p.status import Status
    from impi.api.types.specs import BufferSpec


@guarded
class FileAccess:
    """The methods; :class:`impi.api.files.file.File` has the file.

    Offsets are etypes of the view. A status has the octets that were read or written: fewer than
    were asked for at the end of the file. Non-blocking calls access the file at once, so their
    requests are complete; no proc waits for another in them. Exception of all: ``ERR_FILE``: null
    or closed; ``ERR_READ_ONLY`` or ``ERR_ACCESS``: forbidden by the access mode; ``ERR_ARG``:
    negative offset; ``ERR_IO``: no whole etypes, or what the system says; ``ERR_NO_SPACE``.
    """

    def _live(self) -> FileState:
        raise NotImplementedError

    # ---- at explicit offsets ---------------------------------------------------------------------

    def Read_at(self, offset: int, buf: BufferSpec, status: Status | None = None) -> None:
        """Read at an offset."""
        state = self._live()
        _fill(status, state.transfer(buf, state.explicit(offset), writes=False))

    def Read_at_all(self, offset: int, buf: BufferSpec, status: Status | None = None) -> None:
        """Read at an offset; collective."""
        state = self._live()
        _fill(status, state.collectively(buf, state.explicit(offset), writes=False))

    def Iread_at(self, offset: int, buf: BufferSpec) -> Request:
        """Read at an offset; non-blocking."""
        state = self._live()
        return ended(state.transfer(buf, state.explicit(offset), writes=False))

    def Iread_at_all(self, offset: int, buf: BufferSpec) -> Request:
        """Read at an offset; non-blocking and collective."""
        state = self._live()
        return ended(state.transfer(buf, state.explicit(offset), writes=False))

    def Read_at_all_begin(self, offset: int, buf: BufferSpec) -> None:
        """Begin to read at an offset; collective."""
        state = _unsplit(self._live())
        state.split = ("Read_at_all", state.collectively(buf, state.explicit(offset), writes=False))

    def Read_at_all_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        """End :meth:`Read_at_all_begin`."""
        _end(self._live(), "Read_at_all", status)

    def Write_at(self, offset: int, buf: BufferSpec, status: Status | None = None) -> None:
        """Write at an offset."""
        state = self._live()
        _fill(status, state.transfer(buf, state.explicit(offset), writes=True))

    def Write_at_all(self, offset: int, buf: BufferSpec, status: Status | None = None) -> None:
        """Write at an offset; collective."""
        state = self._live()
        _fill(status, state.collectively(buf, state.explicit(offset), writes=True))

    def Iwrite_at(self, offset: int, buf: BufferSpec) -> Request:
        """Write at an offset; non-blocking."""
        state = self._live()
        return ended(state.transfer(buf, state.explicit(offset), writes=True))

    def Iwrite_at_all(self, offset: int, buf: BufferSpec) -> Request:
        """Write at an offset; non-blocking and collective."""
        state = self._live()
        return ended(state.transfer(buf, state.explicit(offset), writes=True))

    def Write_at_all_begin(self, offset: int, buf: BufferSpec) -> None:
        """Begin to write at an offset; collective."""
        state = _unsplit(self._live())
        state.split = ("Write_at_all", state.collectively(buf, state.explicit(offset), writes=True))

    def Write_at_all_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        """End :meth:`Write_at_all_begin`."""
        _end(self._live(), "Write_at_all", status)

    # ---- at the individual pointer ---------------------------------------------------------------

    def Read(self, buf: BufferSpec, status: Status | None = None) -> None:
        """Read at the individual pointer."""
        state = self._live()
        _fill(status, state.transfer(buf, state.own_pointer(), writes=False))

    def Read_all(self, buf: BufferSpec, status: Status | None = None) -> None:
        """Read at the individual pointer; collective."""
        state = self._live()
        _fill(status, state.collectively(buf, state.own_pointer(), writes=False))

    def Iread(self, buf: BufferSpec) -> Request:
        """Read at the individual pointer; non-blocking."""
        state = self._live()
        return ended(state.transfer(buf, state.own_pointer(), writes=False))

    def Iread_all(self, buf: BufferSpec) -> Request:
        """Read at the individual pointer; non-blocking and collective."""
        state = self._live()
        return ended(state.transfer(buf, state.own_pointer(), writes=False))

    def Read_all_begin(self, buf: BufferSpec) -> None:
        """Begin to read at the individual pointer; collective."""
        state = _unsplit(self._live())
        state.split = ("Read_all", state.collectively(buf, state.own_pointer(), writes=False))

    def Read_all_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        """End :meth:`Read_all_begin`."""
        _end(self._live(), "Read_all", status)

    def Write(self, buf: BufferSpec, status: Status | None = None) -> None:
        """Write at the individual pointer."""
        state = self._live()
        _fill(status, state.transfer(buf, state.own_pointer(), writes=True))

    def Write_all(self, buf: BufferSpec, status: Status | None = None) -> None:
        """Write at the individual pointer; collective."""
        state = self._live()
        _fill(status, state.collectively(buf, state.own_pointer(), writes=True))

    def Iwrite(self, buf: BufferSpec) -> Request:
        """Write at the individual pointer; non-blocking."""
        state = self._live()
        return ended(state.transfer(buf, state.own_pointer(), writes=True))

    def Iwrite_all(self, buf: BufferSpec) -> Request:
        """Write at the individual pointer; non-blocking and collective."""
        state = self._live()
        return ended(state.transfer(buf, state.own_pointer(), writes=True))

    def Write_all_begin(self, buf: BufferSpec) -> None:
        """Begin to write at the individual pointer; collective."""
        state = _unsplit(self._live())
        state.split = ("Write_all", state.collectively(buf, state.own_pointer(), writes=True))

    def Write_all_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        """End :meth:`Write_all_begin`."""
        _end(self._live(), "Write_all", status)

    # ---- at the shared pointer -------------------------------------------------------------------

    def Read_shared(self, buf: BufferSpec, status: Status | None = None) -> None:
        """Read at the shared pointer."""
        state = self._live()
        _fill(status, state.transfer(buf, state.shared, writes=False))

    def Iread_shared(self, buf: BufferSpec) -> Request:
        """Read at the shared pointer; non-blocking."""
        state = self._live()
        return ended(state.transfer(buf, state.shared, writes=False))

    def Read_ordered(self, buf: BufferSpec, status: Status | None = None) -> None:
        """Read at the shared pointer in the order of ranks; collective."""
        _fill(status, self._live().ordered(buf, writes=False))

    def Read_ordered_begin(self, buf: BufferSpec) -> None:
        """Begin :meth:`Read_ordered`; collective."""
        state = _unsplit(self._live())
        state.split = ("Read_ordered", state.ordered(buf, writes=False))

    def Read_ordered_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        """End :meth:`Read_ordered_begin`."""
        _end(self._live(), "Read_ordered", status)

    def Write_shared(self, buf: BufferSpec, status: Status | None = None) -> None:
        """Write at the shared pointer."""
        state = self._live()
        _fill(status, state.transfer(buf, state.shared, writes=True))

    def Iwrite_shared(self, buf: BufferSpec) -> Request:
        """Write at the shared pointer; non-blocking."""
        state = self._live()
        return ended(state.transfer(buf, state.shared, writes=True))

    def Write_ordered(self, buf: BufferSpec, status: Status | None = None) -> None:
        """Write at the shared pointer in the order of ranks; collective."""
        _fill(status, self._live().ordered(buf, writes=True))

    def Write_ordered_begin(self, buf: BufferSpec) -> None:
        """Begin :meth:`Write_ordered`; collective."""
        state = _unsplit(self._live())
        state.split = ("Write_ordered", state.ordered(buf, writes=True))

    def Write_ordered_end(self, buf: BufferSpec, status: Status | None = None) -> None:
        """End :meth:`Write_ordered_begin`."""
        _end(self._live(), "Write_ordered", status)


def _fill(status: Status | None, nbytes: int) -> None:
    if status is not None:
        status.fill(nbytes=nbytes)


def _unsplit(state: FileState) -> FileState:
    if state.split is not None:
        raise error("ERR_IO", f"a file has one split collective at a time, and {state.split[0]}_begin has no end yet")
    return state


def _end(state: FileState, call: str, status: Status | None) -> None:
    if state.split is None or state.split[0] != call:
        begun = "none" if state.split is None else f"{state.split[0]}_begin"
        raise error("ERR_IO", f"{call}_end ends {call}_begin, but {begun} was called before")
    nbytes, state.split = state.split[1], None
    _fill(status, nbytes)
