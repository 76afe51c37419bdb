"""The newest of the runs of a folder: what ``latest`` in it points at, as well as it can."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

LATEST: Final = "latest"


def newest_run(runs: Path) -> Path | None:
    """Return the folder of the newest run; None: there is none.

    ``latest`` may be no link: caches and copies make a folder of it, which grows old, and not all
    file systems have links. Then names tell, which begin with the time.
    """

    link = runs / LATEST
    if link.is_symlink() and link.exists():
        return link.resolve()

    found = sorted(
        path for path in runs.glob("[0-9]*T[0-9]*-*") if (path / "plan.json").exists()
    )
    if found:
        return found[-1].resolve()

    return link if link.is_dir() else None


def point_at(run: Path) -> str:
    """Make ``latest`` point at a run; return why it does not, empty if it does."""

    link = run.parent / LATEST

    temporary = run.parent / f".{LATEST}-{secrets.token_hex(3)}"
    try:
        temporary.symlink_to(run.name)
    except OSError as error:
        return f"{link} does not point at this run: {error.strerror}"

    try:
        os.replace(temporary, link)  # noqa: PTH105
    except OSError as error:
        temporary.unlink(missing_ok=True)
        return f"{link} does not point at this run: {error.strerror}"

    return ""
