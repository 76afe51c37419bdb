"""Whether tests that need a container engine can expect one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def engine_installed() -> bool:
    """Whether there are traces of an engine: command, socket, or a variable that names one."""
    return (
        bool(os.environ.get("DOCKER_HOST"))
        or Path("/var/run/docker.sock").exists()
        or bool(shutil.which("docker"))
    )
