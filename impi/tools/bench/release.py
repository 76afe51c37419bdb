"""The run that the last release keeps, for comparisons: what users had, beside what they would get.

It is of another day and perhaps of another machine, so ratios to references say most.
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

    None: there is no release, or it keeps no run.

    Raises:
        UsageError: its run is of another version of the file.
    """
    tag = _git(checkout, "describe", "--tags", "--abbrev=0", "--match=v[0-9]*").strip()
    place = f"{tag}:{FOLDER.relative_to(ROOT)}/{KEPT}"
    text = _git(checkout, "show", place) if tag else ""
    return (tag, read(text, place)) if text else None


def _git(checkout: Path, *words: str) -> str:
    """What git prints; nothing where it fails or is not there."""
    argv = ["git", "-C", str(checkout), *words]
    try:
        ended = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ended.stdout if ended.returncode == 0 else ""
