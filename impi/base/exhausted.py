"""What this machine or its limits have no more of: a sentence with the cure."""

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
    errno.EAGAIN: "'ulimit -u' shows how many processes this user may have: raise that",
}
_LEAST: Final = 1 << 24  # octets; libraries make some MB for each process of a node
_MEMORY: Final = "/proc/meminfo"
_AVAILABLE: Final = b"MemAvailable:"


def sentence(error: BaseException | None) -> str:
    """Return what is exhausted and the cure; empty: the error has another cause."""
    if not isinstance(error, OSError) or error.errno not in _CURES or isinstance(error, BlockingIOError):
        return "this process gets no more memory: " + _CURES[errno.ENOMEM] if isinstance(error, MemoryError) else ""
    where = f" at {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
    return f"{os.strerror(error.errno)}{where}: {_CURES[error.errno]}"


def short(folders: Iterable[str]) -> str:
    """Return what is nearly used up on this node, memory or space of a folder; empty: nothing."""
    for folder in folders:
        try:
            found = os.statvfs(folder)
        except OSError:
            continue
        free = found.f_bavail * found.f_frsize
        if free < _LEAST or (found.f_files and not found.f_favail):
            return f"{folder} has {free >> 20} MB of free space"
    left = _available()
    return f"memory has {left >> 20} MB left" if left is not None and left < _LEAST else ""


def _available() -> int | None:
    try:
        with open(_MEMORY, "rb") as file:
            rows = [line.split() for line in file]
        return next(int(row[1]) << 10 for row in rows if row[:1] == [_AVAILABLE])
    except (OSError, StopIteration, IndexError, ValueError):
        return None
