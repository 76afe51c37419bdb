"""Descriptions of this machine and of this source, for files of results."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Final

_ROOT: Final = Path(__file__).absolute().parents[2]
_SECONDS: Final = 20.0


def machine() -> dict[str, object]:
    """Return system, processor, cores and present load of this machine, but not its name."""
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": list(os.getloadavg()),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8", "replace")
    except OSError:
        return platform.machine()

    names = [
        line.partition(":")[2].strip()
        for line in text.splitlines()
        if line.startswith("model name")
    ]
    return names[0] if names else platform.machine()


def commit() -> str:
    """Return the commit of the checkout, and whether files differ from it; empty: no checkout."""

    # An installed impi may be inside another repository
    if not (_ROOT / ".git").exists():
        return ""

    # Without tags, by which the same commit would have another name in another clone.
    argv = [
        "git",
        "-C",
        str(_ROOT),
        "describe",
        "--always",
        "--abbrev=10",
        "--exclude=*",
        "--dirty=, with changes",
    ]
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

    return ended.stdout.strip()
