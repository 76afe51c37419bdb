"""The place of a lab's containers among the kernel's groups, by engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.backends.docker.container_lab import DockerLab
from impi.lab.backends.docker.processor_share import share_of_helper, share_of_node
from impi.lab.nodes.topology import parse_topology

GROUPS = Path("/sys/fs/cgroup")


class Engine:
    """An engine that tells of itself."""

    def __init__(self, driver: str, *options: str, name: str = "Engine") -> None:
        self._info = {"CgroupDriver": driver, "SecurityOptions": options}
        self._name = name

    def info(self) -> dict[str, Any]:
        return self._info

    def version(self) -> dict[str, Any]:
        return {"Components": [{"Name": self._name}]}


@pytest.mark.parametrize(
    ("engine", "node", "helper"),
    [
        (
            Engine("cgroupfs", "name=seccomp"),
            {"cgroup_parent": "/", "cpu_shares": 4096},
            {"cgroup_parent": "/", "cpu_shares": 8192},
        ),
        (Engine("systemd"), {}, {"cpu_shares": 65536}),
        (Engine("cgroupfs", "name=rootless"), {}, {"cpu_shares": 65536}),
        (Engine("cgroupfs", name="Podman Engine"), {}, {"cpu_shares": 65536}),
        (Engine("none"), {}, {"cpu_shares": 65536}),
    ],
)
def test_shares_by_engine(
    engine: Any, node: dict[str, Any], helper: dict[str, Any]
) -> None:
    assert share_of_node(engine) == node
    assert share_of_helper(engine, 65536) == helper


@pytest.mark.docker
@pytest.mark.slow
def test_a_lab_leaves_no_group(backend: DockerBackend) -> None:
    lab = backend.open(["pure", "pure"], parse_topology("1x1+1x1"), run="test")
    assert isinstance(lab, DockerLab)
    try:
        containers = list(lab._containers)
        if not share_of_node(backend._client):
            pytest.skip("this engine keeps containers in a group of its own")
        assert len(containers) == 6
        for container in containers:
            container.reload()
            assert container.attrs["HostConfig"]["CgroupParent"] == "/"
            assert _groups(str(container.id))
    finally:
        lab.close()
    assert not any(_groups(str(container.id)) for container in containers)


def _groups(container: str) -> list[Path]:
    return [*GROUPS.glob(f"{container}"), *GROUPS.glob(f"*/{container}")]
