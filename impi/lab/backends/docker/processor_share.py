"""The share of the processors that a lab's containers get on a busy machine.

An engine with the driver cgroupfs puts all containers into one group of the kernel, which weighs as
much as one other process. With 30 of those, a whole lab had a sixteenth of one processor. So a
lab's containers stand at the top of the groups, where each weighs by itself. The engine removes the
group of a container with the container, and there is no group above to be left.

With the driver systemd, a container weighs as much as a service already. Without root's rights, an
engine has no top.
"""

from __future__ import annotations

import functools
from typing import Final, TypedDict

import docker

_TOP: Final = "/"
_NODE_SHARES: Final = 4096
"""Shares of a node, where a process outside has 1024: a cell has about four processes a node."""
_HELPER_SHARES: Final = 8192
"""Those of a helper beside a node: it needs little, but at once."""


class ContainerShare(TypedDict, total=False):
    """The arguments of a new container."""

    cgroup_parent: str
    cpu_shares: int


def share_of_node(client: docker.DockerClient) -> ContainerShare:
    """Return the share of a node."""
    if not weighs_by_itself(client):
        return {}

    return {"cgroup_parent": _TOP, "cpu_shares": _NODE_SHARES}


def share_of_helper(client: docker.DockerClient, shares: int) -> ContainerShare:
    """Return the share of a helper beside a node; ``shares``: if all are in one group."""
    if not weighs_by_itself(client):
        return {"cpu_shares": shares}

    return {"cgroup_parent": _TOP, "cpu_shares": _HELPER_SHARES}


@functools.cache
def weighs_by_itself(client: docker.DockerClient) -> bool:
    """Whether this engine can put containers outside of the one group of all containers."""
    info, version = client.info(), client.version()
    engines = [part.get("Name") for part in version.get("Components") or ()]
    rootless = any("rootless" in option for option in info.get("SecurityOptions") or ())

    return (
        info.get("CgroupDriver") == "cgroupfs" and "Engine" in engines and not rootless
    )
