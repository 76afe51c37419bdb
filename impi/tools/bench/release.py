"""Find the run that the last release keeps in its tree, to compare a new run with it.

It was measured on another day and perhaps on another machine, so compare ratios to references.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from impi.launch.start.program import ROOT
from impi.tools.bench.pages import FOLDER, KEPT
from impi.tools.bench.run_file import Report, read

_SECONDS: Final = 20.0


def released(checkout: Path = Path(ROOT)) -> tuple[str, Report] | None:
    """Return the last release before this commit, by its tag ``vN...``, and the run in its tree.

    The result is None if there is no release, or no run in its tree.

    Raises:
        UsageError: the run's file has another version.
    """

    tag = _git(checkout, "describe", "--tags", "--abbrev=0", "--match=v[0-9]*").strip()
    place = f"{tag}:{FOLDER.relative_to(ROOT)}/{KEPT}"
    text = _git(checkout, "show", place) if tag else ""

    return (tag, read(text, place)) if text else None


def _git(checkout: Path, *words: str) -> str:
    """Return the output of a git command; empty if git fails or is not installed."""
    argv = ["git", "-C", str(checkout), *words]
    try:
        ended = subprocess.run(
            argv,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""

    return ended.stdout if ended.returncode == 0 else ""
