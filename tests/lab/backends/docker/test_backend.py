"""Labs of containers, on the engine of this machine."""

from __future__ import annotations

import pytest
from open_labs import DEADLINE_S

from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.nodes.interface import run_on
from impi.lab.nodes.topology import parse_topology

pytestmark = [pytest.mark.docker, pytest.mark.slow]


def test_through_published_ports(backend: DockerBackend) -> None:
    other = DockerBackend(publish=True)
    lab = other.open(["pure", "pure"], parse_topology("1x1+1x1"), run="test")
    try:
        assert (
            run_on(lab.server, ["hostname"], timeout_s=DEADLINE_S).stdout == b"server\n"
        )
        lab.begin_capture()
        assert len(lab.end_capture()) == 3
    finally:
        lab.close()
