"""The cache of compiled libraries: where it is, and folders that are made once.

A folder is filled under a temporary name and renamed into place, so a reader sees a whole folder
or none. A lock lets one process compile while the others wait for its result.

The cache is ``~/.cache/impi``, or the folder in ``IMPI_CACHE``. If that cannot be written, the
user's own folder among temporary files replaces it. LD_PRELOAD and the compiler split paths at
spaces and colons, so a cache whose path has one is reached by a link in that temporary folder.
Nothing is loaded from a folder that others can write: the library runs in every rank.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from impi.base import own_folders
from impi.base.errors import LaunchError

# Between the name of a folder and a random part, while it is made
_MADE: Final = ".made-"
# Separators of LD_PRELOAD and of the compiler's -Wl
_BAD: Final = frozenset(" \t\n:;,$'\"=")


def folder(environ: Mapping[str, str]) -> str:
    """Return the cache that the user has chosen; LaunchError: no folder can be had at all."""
    if named := environ.get("IMPI_CACHE"):
        return os.path.abspath(named)

    home = environ.get("HOME")

    return os.path.join(home, ".cache", "impi") if home else _own_temporary()


def place(environ: Mapping[str, str], name: str, files: Sequence[str]) -> str:
    """Return the path of a folder of the cache, whether it exists or not.

    Args:
        environ: variables that say where the cache is.
        name: the folder's.
        files: the files of a whole folder.

    Raises:
        LaunchError: no folder can be written, or others can write the one that exists.
    """

    # Checked before anything is loaded: whoever can write here could run code in every rank.
    chosen = folder(environ)
    for there in (chosen, os.path.join(chosen, name)):
        if os.path.isdir(there) and not own_folders.is_safe(there):
            raise LaunchError(
                f"others can write {there}, so nothing is loaded from there: 'chmod go-w' it if it is yours, or set "
                "IMPI_CACHE to a folder of your own"
            )

    # A cache that an administrator has filled and made read-only is used as it is.
    if not is_whole(os.path.join(chosen, name), files) and not _is_writable(chosen):
        chosen = _own_temporary()
    elif not _BAD.isdisjoint(chosen):
        chosen = _linked(chosen)

    return os.path.join(chosen, name)


def is_whole(place: str, files: Sequence[str]) -> bool:
    """Return whether all files of a folder exist: cleaners of old files remove single ones."""
    return all(os.path.exists(os.path.join(place, file)) for file in files)


def _is_writable(chosen: str) -> bool:
    try:
        os.makedirs(chosen, mode=0o700, exist_ok=True)
    except OSError:
        return False

    return os.access(chosen, os.W_OK | os.X_OK)


def _own_temporary() -> str:
    """Return a temporary folder that only this user can write; raises as :func:`place`."""
    try:
        return own_folders.temporary()
    except OSError as error:
        raise LaunchError(
            f"no folder for compiled files can be made: {error.filename}: {error.strerror}; set IMPI_CACHE to a folder"
        ) from None


def _linked(chosen: str) -> str:
    from impi.protocol.proofs import sha256

    link = os.path.join(_own_temporary(), sha256(os.fsencode(chosen)).hexdigest()[:12])
    try:
        if not os.path.islink(link):
            os.symlink(chosen, link)
    except FileExistsError:
        pass  # another process has made it
    except OSError as error:
        raise LaunchError(
            f"{chosen} has a space or colon, and has no link: {error}; set IMPI_CACHE"
        ) from None

    return link


def make(place: str, fill: Callable[[str], object], files: Sequence[str]) -> None:
    """Make a folder of the cache, unless it exists and is whole.

    You may call this from several processes at once: one fills the folder, the others wait. A
    folder with missing files is made anew.

    Args:
        place: path of the folder.
        fill: makes the folder at the path that it gets; it may leave scratch files beside it.
        files: the files of a whole folder.

    Raises:
        LaunchError: raised by ``fill``; or the cache cannot be written.
    """
    if is_whole(place, files):
        return

    try:
        _make(place, fill, files)
    except OSError as error:
        raise LaunchError(
            f"{place} cannot be made: {error.strerror}; set IMPI_CACHE to a folder that can be written"
        ) from None


def _make(place: str, fill: Callable[[str], object], files: Sequence[str]) -> None:
    import contextlib
    import tempfile  # slow to import, and needed once for a machine

    parent, name = os.path.split(place)

    os.makedirs(parent, mode=0o700, exist_ok=True)
    with own_folders.opened_lock(f"{place}.lock") as lock:
        ours = ""
        # Some file systems lack locks: two may compile, one result stays
        with contextlib.suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
            ours = name

        if is_whole(place, files):  # made by the process that had the lock
            return

        _sweep(parent, ours)
        with tempfile.TemporaryDirectory(prefix=f"{name}{_MADE}", dir=parent) as work:
            done = os.path.join(work, "done")
            fill(done)

            own_folders.close_to_others(done)
            # rename() replaces no folder that has files, so one with a hole moves away first. Ranks
            # that have its libraries open keep them.
            if os.path.lexists(place):
                with contextlib.suppress(OSError):
                    os.rename(place, os.path.join(work, "holed"))

            try:
                os.rename(done, place)
            except OSError:
                # Without locks another process may have been first: its folder is as good.
                if not is_whole(place, files):
                    raise


def _sweep(parent: str, ours: str) -> None:
    """Remove the leftovers of killed builds, which are those whose lock no process holds."""
    import shutil

    for left in os.listdir(parent):
        name, made, _ = left.partition(_MADE)
        if made and (
            name == ours
            or not own_folders.is_held(os.path.join(parent, f"{name}.lock"))
        ):
            shutil.rmtree(os.path.join(parent, left), ignore_errors=True)
