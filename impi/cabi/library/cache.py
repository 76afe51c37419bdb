"""The cache of what is compiled: its place, and folders that are made once.

``IMPI_CACHE`` names another place than ``~/.cache/impi``.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Mapping


def folder(environ: Mapping[str, str]) -> str:
    """Return the place."""
    if named := environ.get("IMPI_CACHE"):
        return named
    home = environ.get("HOME")
    if not home:
        import tempfile  # as below

        home = tempfile.gettempdir()
    return os.path.join(home, ".cache", "impi")


def make(place: str, fill: Callable[[str], object]) -> None:
    """Make a folder of the cache, unless it is there; others are made at the same time.

    Args:
        place: its path.
        fill: makes it under another path, whose own folder is for scratch.

    Raises:
        LaunchError: of ``fill``.
    """
    import tempfile  # takes a while, and is needed once

    os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(f"{place}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(place):
            with tempfile.TemporaryDirectory(dir=os.path.dirname(place)) as work:
                done = os.path.join(work, "done")
                fill(done)
                os.rename(done, place)
