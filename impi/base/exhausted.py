"""Sentences about exhausted resources of a machine or a user, each with its cure.

The system's own text ("Resource temporarily unavailable") names neither the limit nor the cure.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from typing import Final

_CURES: Final = {
    errno.EMFILE: "'ulimit -n' shows how many files it may have open: raise that",
    errno.ENFILE: "the machine has no more open files: see fs.file-max of sysctl",
    errno.ENOMEM: "run fewer processes, or on more nodes",
    errno.ENOSPC: "free some space",
    errno.EDQUOT: "free some space of this user",
}
_THREADS: Final = "can't start new thread"  # Python's own words: it tells no errno
_LEAST: Final = 1 << 24  # octets; a library takes some MB for each process of a node
_MEMORY: Final = "/proc/meminfo"
_AVAILABLE: Final = b"MemAvailable:"


def sentence(error: BaseException | None) -> str:
    """Return the exhausted resource and the cure; empty: the error has another cause."""
    if isinstance(error, MemoryError):
        return f"this process gets no more memory: {_CURES[errno.ENOMEM]}"

    if isinstance(error, RuntimeError) and str(error) == _THREADS:
        from impi.base.remote.processes import MORE_PROCESSES  # few come here

        return f"this process gets no more threads: {MORE_PROCESSES}"

    if not isinstance(error, OSError) or error.errno not in _CURES:
        return ""

    where = (
        f" at {os.fsdecode(error.filename)}"
        if isinstance(error.filename, str | bytes)
        else ""
    )

    return f"{os.strerror(error.errno)}{where}: {_CURES[error.errno]}"


def short(folders: Iterable[str]) -> str:
    """Return which resource of this node is nearly used up; empty: none.

    Args:
        folders: folders whose free space counts besides the memory.
    """
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError:
            continue

        free = found.f_bavail * found.f_frsize
        # A file system may be out of inodes while it has space; some (btrfs) count none at all.
        if free < _LEAST or (found.f_files and not found.f_favail):
            return f"{folder} has {free >> 20} MB of free space"

    left = _available()

    return (
        f"memory has {left >> 20} MB left" if left is not None and left < _LEAST else ""
    )


def _available() -> int | None:
    try:
        with open(_MEMORY, "rb") as file:
            rows = [line.split() for line in file]

        return next(int(row[1]) << 10 for row in rows if row[:1] == [_AVAILABLE])
    except (OSError, StopIteration, IndexError, ValueError):
        return None
