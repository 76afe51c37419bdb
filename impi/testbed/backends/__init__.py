"""Which machines does a lab run on?

``docker`` (containers, SSH and captures) and ``local`` (processes on loopback addresses). Both are what
:mod:`impi.testbed.lab.interface` describes; nothing here knows of cells or verdicts.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from impi.errors import UsageError
from impi.testbed.lab.interface import Backend

__all__ = ["choose_backend", "engine_installed"]


def engine_installed() -> bool:
    """Whether there is any sign of a container engine: its command, its socket, or a variable that points to one."""
    return bool(os.environ.get("DOCKER_HOST")) or Path("/var/run/docker.sock").exists() or bool(shutil.which("docker"))


def choose_backend(name: str | None) -> Backend:
    """The backend of that name; None: ``docker`` where an engine is installed, else ``local`` with a line on stderr.

    There is no way back from docker to local: an engine that is there but refuses or is broken is an error.

    Raises:
        UsageError: there is no backend of that name.
        LabError: the engine does not answer; the message says the cure.
    """
    if name not in ("docker", "local", None):
        raise UsageError(f"there is no backend {name!r}: write docker or local")
    if name == "docker" or (name is None and engine_installed()):
        from impi.testbed.backends.docker.docker_backend import DockerBackend

        return DockerBackend()
    if name is None:
        print(
            "impilab: no container engine is installed, so this runs on loopback: no captures, self-reported results",
            file=sys.stderr,
        )
    from impi.testbed.backends.loopback.loopback_backend import LoopbackBackend

    return LoopbackBackend()
