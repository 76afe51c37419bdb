"""File pointers: the begin of the next access, in etypes of the view (MPI 4.1, 14.4).

The shared pointer is kept in a *companion*: a hidden file beside the file, whose lock a proc has
while it moves the pointer. A proc that kept it and answered messages would have to answer while its
program computes; the file system always answers, and is the one thing that all procs surely share.
The first proc that moves the pointer makes the companion, so other files have none.

Each Seek_shared and Set_view begins another *era*, which all procs count, with a value that they
have agreed on. A companion of an earlier era means nothing, so these calls write none.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from collections.abc import Iterator
from threading import Lock
from typing import Final, Protocol

from impi.protocol.semantics.errors import error
from impi.rank.api.files.descriptor import failure_of

_ROW: Final = struct.Struct(">QQ")  # era and value


class Pointer(Protocol):
    """The begin of the next access."""

    def advance(self, etypes: int) -> int:
        """Return the offset of an access to ``etypes`` etypes; the next one begins after it."""


class Explicit:
    """An offset that the program gives; ``ERR_ARG`` if it is negative."""

    def __init__(self, offset: int) -> None:
        if offset < 0:
            raise error("ERR_ARG", f"the offset {offset} is negative")

        self._offset = offset

    def advance(self, etypes: int) -> int:
        return self._offset


class Individual:
    """The pointer of one proc."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._own = Lock()

    def advance(self, etypes: int) -> int:
        """Return the position; move it by all that is asked for, as MPI does at an end of file."""
        with self._own:
            begin = self.position
            self.position += etypes
            return begin


class Shared:
    """The pointer of all procs of a file.

    Args:
        path: of the companion.
        start: the value of the first era.
    """

    def __init__(self, path: bytes, start: int) -> None:
        self._path = path
        self._era = 0
        self._start = start
        self._descriptor: int | None = None
        # The lock of the companion excludes other procs, not other threads of this one
        self._own = Lock()

    @property
    def position(self) -> int:
        try:
            with self._locked(make=False) as value:
                return value
        except FileNotFoundError:
            return self._start
        except OSError as failure:
            raise failure_of(failure, os.fsdecode(self._path)) from failure

    def advance(self, etypes: int) -> int:
        """Return the value and add to it, as one step."""
        try:
            with self._locked(make=True) as value:
                assert self._descriptor is not None, "this proc has not opened the file"
                os.pwrite(self._descriptor, _ROW.pack(self._era, value + etypes), 0)
                return value
        except OSError as failure:
            raise failure_of(failure, os.fsdecode(self._path)) from failure

    def begin(self, start: int) -> None:
        """Begin an era; every proc calls it once all have ended their accesses of the last one."""
        self._era += 1
        self._start = start

    def close(self, *, remove: bool) -> None:
        """Forget the companion, at the end of all accesses; one proc removes it."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

        if remove:
            with contextlib.suppress(OSError):
                os.unlink(self._path)  # noqa: PTH108  (bytes)

    @contextlib.contextmanager
    def _locked(self, *, make: bool) -> Iterator[int]:
        """Lock the companion and yield the value. Raises OSError."""
        with self._own:
            if self._descriptor is None:
                self._descriptor = os.open(
                    self._path,
                    os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if make else 0),
                    0o600,
                )

            # The kernel takes the lock back from a proc that ends: no pointer stays locked.
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX)
            try:
                # A companion that is new has no row, and one of an earlier era no value that
                # counts.
                row = os.pread(self._descriptor, _ROW.size, 0)
                era, value = (
                    _ROW.unpack(row)
                    if len(row) == _ROW.size
                    else (self._era, self._start)
                )
                yield value if era == self._era else self._start
            finally:
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN)


def companion_of(path: bytes, token: str) -> bytes:
    """Return the path of a hidden file beside another."""
    folder, _, name = path.rpartition(b"/")
    hidden = b"." + name[:200] + b".impi-" + token.encode()

    return folder + b"/" + hidden if b"/" in path else hidden
