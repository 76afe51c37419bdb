"""Fixtures of the tests of backends."""

from __future__ import annotations

from pathlib import Path

import pytest
from container_engine import engine_installed

from impi.base.errors import LabError
from impi.lab.backends.docker.backend import DockerBackend


@pytest.fixture(autouse=True)
def short_pauses(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On loopback ``clean`` need not wait for an engine busy with earlier requests."""
    if not request.node.get_closest_marker("docker"):
        monkeypatch.setattr("impi.lab.backends.lifecycle.cleanup._PAUSE_S", 0.05)


@pytest.fixture(scope="module")
def docker() -> DockerBackend:
    if not engine_installed():
        pytest.skip(
            "no container engine is installed: these tests need one that answers"
        )
    try:
        backend = DockerBackend()
    except LabError as error:
        pytest.skip(f"these tests need a container engine that answers: {error}")
    backend.prepare(["pure"])
    return backend


@pytest.fixture
def temp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path
