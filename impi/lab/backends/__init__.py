"""Backends: the machines that a lab runs on.

``docker`` has containers, SSH and captures; ``local`` has processes on loopback addresses;
``ssh:FILE`` has the hosts that a file names, ``swarm`` tasks of a Docker swarm, ``kubernetes`` Jobs
of a cluster. All implement :mod:`impi.lab.nodes.interface`; nothing here knows of cells or
verdicts.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from impi.base.errors import UsageError
from impi.lab.nodes.interface import ON_HOSTS, ON_KUBERNETES, Backend

__all__ = ["choose_backend", "engine_installed"]


def engine_installed() -> bool:
    """Whether there are traces of a container engine: command, socket, or a variable that names
    one."""
    return bool(os.environ.get("DOCKER_HOST")) or Path("/var/run/docker.sock").exists() or bool(shutil.which("docker"))


def choose_backend(name: str | None) -> Backend:
    """Return ``docker``, ``local``, ``ssh:FILE``, ``swarm`` or ``kubernetes[:NAMESPACE]``.

    None is ``docker`` with an engine installed, else ``local``.

    ``local`` by default prints a line on stderr. A broken or refusing engine is an error, never a
    reason for ``local``.

    Raises:
        UsageError: there is no backend of that name, or its file is wrong.
        LabError: the engine does not answer; the message names the cure.
    """
    if name is not None and name.startswith(ON_HOSTS):
        from impi.lab.backends.ssh.backend import SshBackend

        return SshBackend(name.removeprefix(ON_HOSTS))
    if name == "swarm":
        from impi.lab.backends.swarm.backend import SwarmBackend

        return SwarmBackend()
    if name is not None and name.partition(":")[0] == ON_KUBERNETES:
        from impi.lab.backends.kubernetes.backend import KubernetesBackend

        return KubernetesBackend(name.partition(":")[2])
    if name not in ("docker", "local", None):
        raise UsageError(
            f"there is no backend {name!r}: write docker, local, ssh:FILE, swarm or kubernetes[:NAMESPACE]"
        )
    if name == "docker" or (name is None and engine_installed()):
        from impi.lab.backends.docker.backend import DockerBackend

        return DockerBackend()
    if name is None:
        print(
            "impilab: no container engine is installed, so this runs on loopback: no captures, self-reported results",
            file=sys.stderr,
        )
    from impi.lab.backends.loopback.backend import LoopbackBackend

    return LoopbackBackend()
