"""An engine that answers, and a lab of three nodes and a server on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from container_engine import engine_installed

from impi.lab.backends.docker.backend import DockerBackend
from impi.lab.nodes.interface import Lab
from impi.lab.nodes.topology import parse_topology


@pytest.fixture(scope="module")
def backend() -> DockerBackend:
    if not engine_installed():
        pytest.skip(
            "no container engine is installed: these tests need one that answers"
        )
    backend = DockerBackend()
    backend.prepare(["pure"])
    return backend


@pytest.fixture(scope="module")
def lab(backend: DockerBackend) -> Iterator[Lab]:
    lab = backend.open(["pure", "pure"], parse_topology("2x1+1x2"), run="test")
    yield lab
    lab.close()
