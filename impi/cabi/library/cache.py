"""The cache of what is compiled: its place, and folders that are made once.

``IMPI_CACHE`` names another place than ``~/.cache/impi``. Where nothing can be written there, a
folder of the user's own among temporary files takes its place. The loader cannot take a library
whose path has a space or a colon: such a place is reached by a link there. Nothing is taken from a
folder that others can write.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from impi.base import own_folders
from impi.base.errors import LaunchError

_MADE: Final = ".made-"  # between the name of a folder and a random part, while it is made
_BAD: Final = frozenset(" \t\n:;,$'\"=")  # of LD_PRELOAD and of the compiler's -Wl


def folder(environ: Mapping[str, str]) -> str:
    """Return the place that the user has chosen; raises LaunchError where there is none at all."""
    if named := environ.get("IMPI_CACHE"):
        return os.path.abspath(named)
    home = environ.get("HOME")
    return os.path.join(home, ".cache", "impi") if home else _own_temporary()


def place(environ: Mapping[str, str], name: str, files: Sequence[str]) -> str:
    """Return where a folder of the cache is, or is to be made.

    Args:
        environ: for the place of the cache.
        name: of the folder.
        files: in it; where one is missing, the folder is not whole.

    Raises:
        LaunchError: nothing can be written, or somebody else can write what is there.
    """
    chosen = folder(environ)
    for there in (chosen, os.path.join(chosen, name)):
        if os.path.isdir(there) and not own_folders.is_safe(there):
            raise LaunchError(
                f"others can write {there}, so nothing is loaded from there: 'chmod go-w' it if it is yours, or set "
                "IMPI_CACHE to a folder of your own"
            )
    if not is_whole(os.path.join(chosen, name), files) and not _is_writable(chosen):
        chosen = _own_temporary()
    elif not _BAD.isdisjoint(chosen):
        chosen = _linked(chosen)
    return os.path.join(chosen, name)


def is_whole(place: str, files: Sequence[str]) -> bool:
    """Return whether all files of a folder are there: tools that clean take single ones."""
    return all(os.path.exists(os.path.join(place, file)) for file in files)


def _is_writable(chosen: str) -> bool:
    try:
        os.makedirs(chosen, mode=0o700, exist_ok=True)
    except OSError:
        return False
    return os.access(chosen, os.W_OK | os.X_OK)


def _own_temporary() -> str:
    """Return a folder that nobody else can write; raises as :func:`place`."""
    try:
        return own_folders.temporary()
    except OSError as error:
        raise LaunchError(
            f"there is no folder for what is compiled: {error.filename}: {error.strerror}; set IMPI_CACHE to one"
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
        raise LaunchError(f"{chosen} has a space or colon, and has no link: {error}; set IMPI_CACHE") from None
    return link


def make(place: str, fill: Callable[[str], object], files: Sequence[str]) -> None:
    """Make a folder of the cache, unless it is there and whole; others are made at the same time.

    A folder that is not whole is made anew.

    Args:
        place: its path.
        fill: makes it under another path, whose own folder is for scratch.
        files: what must be in it.

    Raises:
        LaunchError: of ``fill``; or nothing can be written.
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
    import tempfile  # takes a while, and is needed once

    parent, name = os.path.split(place)
    os.makedirs(parent, mode=0o700, exist_ok=True)
    with own_folders.opened_lock(f"{place}.lock") as lock:
        ours = ""
        with contextlib.suppress(OSError):  # some file systems have none: two may compile, and one is kept
            fcntl.flock(lock, fcntl.LOCK_EX)
            ours = name
        if is_whole(place, files):
            return
        _sweep(parent, ours)
        with tempfile.TemporaryDirectory(prefix=f"{name}{_MADE}", dir=parent) as work:
            done = os.path.join(work, "done")
            fill(done)
            own_folders.close_to_others(done)
            if os.path.lexists(place):
                with contextlib.suppress(OSError):
                    os.rename(place, os.path.join(work, "holed"))
            try:
                os.rename(done, place)
            except OSError:
                if not is_whole(place, files):
                    raise


def _sweep(parent: str, ours: str) -> None:
    """Remove what builds have left that were killed: nobody else holds their locks."""
    import shutil

    for left in os.listdir(parent):
        name, made, _ = left.partition(_MADE)
        if made and (name == ours or not own_folders.is_held(os.path.join(parent, f"{name}.lock"))):
            shutil.rmtree(os.path.join(parent, left), ignore_errors=True)
