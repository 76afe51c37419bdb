"""Descriptor: POSIX calls on an open file, with their errors as MPI's classes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Final

from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api.files.view import Pieces

# MPI's classes of errors as MPICH has them; all others are ERR_IO.
_CLASSES: Final = {
    errno.ENOENT: "ERR_NO_SUCH_FILE",
    errno.ENODEV: "ERR_NO_SUCH_FILE",
    errno.EEXIST: "ERR_FILE_EXISTS",
    errno.EACCES: "ERR_ACCESS",
    errno.EPERM: "ERR_ACCESS",
    errno.EROFS: "ERR_READ_ONLY",
    errno.ENOSPC: "ERR_NO_SPACE",
    errno.EFBIG: "ERR_NO_SPACE",
    errno.EDQUOT: "ERR_QUOTA",
    errno.ETXTBSY: "ERR_FILE_IN_USE",
    errno.EBUSY: "ERR_FILE_IN_USE",
    errno.ENAMETOOLONG: "ERR_BAD_FILE",
    errno.ENOTDIR: "ERR_BAD_FILE",
    errno.EISDIR: "ERR_BAD_FILE",
    errno.ELOOP: "ERR_BAD_FILE",
    errno.ENXIO: "ERR_BAD_FILE",
}

_MOST: Final = 1 << 30  # octets of one call: Linux moves no more than 2 GiB - 4096
# Pieces so near each other are read together: a page costs as much as the call
_NEAR: Final = 4096
_TOGETHER: Final = 4 << 20  # octets of such a reading


def failure_of(failure: OSError, name: str) -> MPIException:
    """Return the exception for a failed call on the file ``name``."""
    return error(
        _CLASSES.get(failure.errno or 0, "ERR_IO"),
        f"{name}: {os.strerror(failure.errno or 0)}",
    )


def delete(path: bytes) -> None:
    """Delete a file."""
    try:
        os.unlink(path)  # noqa: PTH108  (bytes)
    except OSError as failure:
        raise failure_of(failure, os.fsdecode(path)) from failure


class Descriptor:
    """An open file. All methods raise MPIException for errors of the operating system.

    Args:
        number: the descriptor, which this object owns.
        name: of the file, for errors.
    """

    def __init__(self, number: int, name: str) -> None:
        self.number = number
        self._name = name
        self._written = False  # whether octets may not be on the device yet
        self._own = Lock()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except OSError as failure:
            raise failure_of(failure, self._name) from failure

    @property
    def size(self) -> int:
        with self._failing():
            return os.fstat(self.number).st_size

    def resize(self, size: int) -> None:
        with self._failing():
            os.ftruncate(self.number, size)

    def reserve(self, size: int) -> None:
        """Extend the file to ``size`` octets that the device has room for, unless it is larger."""
        with self._failing():
            if size > os.fstat(self.number).st_size:
                os.posix_fallocate(self.number, 0, size)

    def sync(self) -> None:
        if self._written:
            self._written = False  # first: another thread may write meanwhile
            with self._failing():
                os.fsync(self.number)

        # An NFS client forgets its cached octets of a file when it takes a lock on it.
        with contextlib.suppress(OSError):
            fcntl.lockf(self.number, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, _PAST_ALL)
            fcntl.lockf(self.number, fcntl.LOCK_UN, 1, _PAST_ALL)

    def close(self) -> None:
        with self._failing():
            os.close(self.number)

    @contextlib.contextmanager
    def _locked(self, pieces: Pieces, *, exclusive: bool) -> Iterator[None]:
        """Lock all from the first to the last octet of pieces; others wait in their accesses."""
        first, end = pieces.span
        # Locks of a file exclude other procs, not other threads of this one
        with self._own:
            with self._failing():
                fcntl.lockf(
                    self.number,
                    fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH,
                    end - first,
                    first,
                )

            try:
                yield
            finally:
                with self._failing():
                    fcntl.lockf(self.number, fcntl.LOCK_UN, end - first, first)

    def write(self, pieces: Pieces, octets: memoryview, *, atomic: bool) -> None:
        """Write octets into pieces; ``atomic``: others see all of it or nothing."""

        if not pieces.offsets:
            return

        begin = 0

        # Before the write, which may fail after some octets.
        self._written = True
        with (
            self._locked(pieces, exclusive=True)
            if atomic
            else contextlib.nullcontext(),
            self._failing(),
        ):
            for offset, length in zip(pieces.offsets, pieces.lengths, strict=True):
                done, end = 0, begin + length
                # A write may end early, such as at the limit of one call.
                while done < length:
                    done += os.pwrite(
                        self.number,
                        octets[begin + done : min(end, begin + done + _MOST)],
                        offset + done,
                    )

                begin = end

    def read(self, pieces: Pieces, octets: memoryview, *, atomic: bool) -> int:
        """Read pieces into octets; return how many came before the end of the file."""

        if not pieces.offsets:
            return 0

        begin = 0
        with (
            self._locked(pieces, exclusive=False)
            if atomic
            else contextlib.nullcontext(),
            self._failing(),
        ):
            for first, last in _groups(pieces):
                offsets, lengths = (
                    pieces.offsets[first:last],
                    pieces.lengths[first:last],
                )
                end = begin + sum(lengths)

                begin += self._fill_near(octets[begin:end], offsets, lengths)
                if begin < end:
                    break

        return begin

    def _fill_near(
        self, octets: memoryview, offsets: Sequence[int], lengths: Sequence[int]
    ) -> int:
        """Read pieces by one call; return how many octets came before the end of the file."""

        origin = offsets[0]
        if len(offsets) == 1:
            return self._fill(octets, origin)

        near = memoryview(bytearray(offsets[-1] + lengths[-1] - origin))

        n, done = self._fill(near, origin), 0
        for offset, length in zip(offsets, lengths, strict=True):
            at = offset - origin
            came = max(0, min(length, n - at))
            octets[done : done + came] = near[at : at + came]

            done += came
            if came < length:
                break

        return done

    def _fill(self, octets: memoryview, offset: int) -> int:
        done = 0
        while done < len(octets):
            # A read may end early, too. Only 0 is the end of the file.
            n = os.preadv(self.number, [octets[done : done + _MOST]], offset + done)
            if n == 0:
                break

            done += n

        return done


_PAST_ALL: Final = (1 << 63) - 2  # an octet that no file has, and no access locks


def _groups(pieces: Pieces) -> Iterator[tuple[int, int]]:
    """Yield first and end of pieces that are read by one call."""

    offsets, lengths = pieces.offsets, pieces.lengths

    first, number = 0, len(offsets)
    for i in range(1, number):
        gap = offsets[i] - offsets[i - 1] - lengths[i - 1]
        if (
            not 0 <= gap <= _NEAR
            or offsets[i] + lengths[i] - offsets[first] > _TOGETHER
        ):
            yield first, i
            first = i

    if number:
        yield first, number
