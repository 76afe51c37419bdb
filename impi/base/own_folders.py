"""Folders of this user's own: what is loaded, locked or kept lies where nobody else can write."""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from typing import Final

_OTHERS: Final = 0o022  # who else may write: the group, and all


def is_safe(path: str) -> bool:
    """Return whether only this user or root can write a folder, which may be reached by a link."""
    with contextlib.suppress(OSError):
        return _is_closed(os.stat(path), (os.geteuid(), 0))
    return False


def is_mine(path: str) -> bool:
    """Return whether a folder, and no link, is this user's, who alone can write it."""
    with contextlib.suppress(OSError):
        return _is_closed(os.lstat(path), (os.geteuid(),))
    return False


def _is_closed(found: os.stat_result, owners: tuple[int, ...]) -> bool:
    return stat.S_ISDIR(found.st_mode) and found.st_uid in owners and not found.st_mode & _OTHERS


def temporary() -> str:
    """Return this user's folder among temporary files, made on first use.

    Where somebody else has taken its name, one with a further part takes its place; the next
    process finds that.

    Raises:
        OSError: none can be made, or others can take away what is there.
    """
    import tempfile  # takes a while, and most processes need none

    above, name = tempfile.gettempdir(), f"impi-{os.geteuid()}"
    mode = os.stat(above).st_mode
    if mode & _OTHERS and not mode & stat.S_ISVTX:
        raise PermissionError(1, "others can rename what is in it ('chmod +t' forbids that)", above)
    with contextlib.suppress(OSError):
        os.mkdir(os.path.join(above, name), 0o700)
    named = sorted(other for other in os.listdir(above) if other == name or other.startswith(f"{name}-"))
    own = (os.path.join(above, other) for other in named)
    return next(filter(is_mine, own), None) or tempfile.mkdtemp(prefix=f"{name}-", dir=above)


@contextlib.contextmanager
def opened_lock(path: str) -> Iterator[int]:
    """Open a file to be locked, and no link to another one. Raises OSError."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_held(path: str) -> bool:
    """Return whether a process holds that lock, or nobody can say; the file stays."""
    try:
        with opened_lock(path) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def close_to_others(folder: str) -> None:
    """Take from others what rights to write they have in a folder and all below it."""
    for place, _, files in os.walk(folder):
        for path in (place, *(os.path.join(place, file) for file in files)):
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode & ~_OTHERS)
