"""Backends: each opens labs on one kind of machines.

``docker`` has containers, SSH and captures; ``local`` has processes on loopback addresses;
``ssh:FILE`` has the hosts that a file names, ``swarm`` tasks of a Docker swarm, ``kubernetes`` Jobs
of a cluster. All implement :mod:`impi.lab.nodes.interface`; nothing here knows of cells or
verdicts.
"""

from __future__ import annotations

import sys

from impi.base.errors import UsageError
from impi.lab.nodes.interface import ON_HOSTS, ON_KUBERNETES, Backend

__all__ = ["choose_backend"]


def choose_backend(name: str | None) -> Backend:
    """Return ``docker``, ``local``, ``ssh:FILE``, ``swarm`` or ``kubernetes[:NAMESPACE]``.

    None is ``docker`` where an engine serves this user, else ``local`` with a line on stderr.
    If you name ``docker``, you get no other backend in its place.

    Raises:
        UsageError: there is no backend of that name, or its file is wrong.
        LabError: the engine that is named does not answer; the message names the cure.
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

    if name != "local":
        from impi.lab.backends.docker.backend import DockerBackend
        from impi.lab.backends.docker.engine import NoEngine

        try:
            return DockerBackend()
        except NoEngine as refused:
            if name is not None:
                raise

            print(
                f"impilab: {refused.why}, so this runs ON LOOPBACK: no captures, self-reported results; "
                f"for containers {refused.cure} (--backend local: without this line)",
                file=sys.stderr,
            )

    from impi.lab.backends.loopback.backend import LoopbackBackend

    return LoopbackBackend()
