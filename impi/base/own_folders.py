"""Folders that only this user can write, for files that are loaded, locked or kept.

In /tmp every user can make a folder of any name beforehand, and a file in it would then be loaded
into this user's processes. So a folder is used only if this user owns it and no one else can write
it, and only in a parent where others cannot rename it (the sticky bit).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from typing import Final

_OTHERS: Final = 0o022  # write permission of the group and of all


def is_safe(path: str) -> bool:
    """Return whether only this user or root can write a folder; links to it are followed.

    Root's counts as safe: an administrator may fill a cache for all users.
    """
    with contextlib.suppress(OSError):
        return _is_closed(os.stat(path), (os.geteuid(), 0))

    return False


def is_mine(path: str) -> bool:
    """Return whether this is this user's folder, no link, and only this user can write it."""
    with contextlib.suppress(OSError):
        return _is_closed(os.lstat(path), (os.geteuid(),))

    return False


def _is_closed(found: os.stat_result, owners: tuple[int, ...]) -> bool:
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid in owners
        and not found.st_mode & _OTHERS
    )


def temporary() -> str:
    """Return this user's folder among temporary files, and make it on first use.

    If another user has taken its name, a folder with a random part behind the name replaces it, and
    later processes find that one.

    Raises:
        OSError: no folder can be made, or others could rename it.
    """

    import tempfile  # slow to import, and most processes need no folder

    above, name = tempfile.gettempdir(), f"impi-{os.geteuid()}"

    # Where others may write and no sticky bit is set, they could put a folder of theirs in the
    # place of ours at any time.
    mode = os.stat(above).st_mode
    if mode & _OTHERS and not mode & stat.S_ISVTX:
        raise PermissionError(
            1, "others can rename what is in it ('chmod +t' forbids that)", above
        )

    with contextlib.suppress(OSError):
        # Made, or there already; only :func:`is_mine` tells its owner.
        os.mkdir(os.path.join(above, name), 0o700)

    # Sorted, so that all processes of the user choose the same folder.
    named = sorted(
        other
        for other in os.listdir(above)
        if other == name or other.startswith(f"{name}-")
    )
    own = (os.path.join(above, other) for other in named)

    return next(filter(is_mine, own), None) or tempfile.mkdtemp(
        prefix=f"{name}-", dir=above
    )


@contextlib.contextmanager
def opened_lock(path: str) -> Iterator[int]:
    """Open a file for locking; OSError: it cannot be opened, or is a link."""
    # O_NOFOLLOW: a link that another user made could create or lock any file of this user.
    descriptor = os.open(
        path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def is_held(path: str) -> bool:
    """Return whether a process holds a lock, or whether that cannot be found out.

    The file stays: removing it would let two processes lock two files of one name.
    """
    try:
        with opened_lock(path) as descriptor:
            # The kernel drops the lock with the last descriptor, so a killed holder leaves none.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True

    return False


def close_to_others(folder: str) -> None:
    """Remove write permission of group and all from a folder and everything below it."""
    for place, _, files in os.walk(folder):
        for path in (place, *(os.path.join(place, file) for file in files)):
            if not os.path.islink(path):
                os.chmod(path, os.stat(path).st_mode & ~_OTHERS)
