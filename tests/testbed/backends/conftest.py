"""Fixtures of the tests of backends."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def short_pauses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """On loopback ``clean`` need not wait for an engine busy with earlier requests."""
    if not request.node.get_closest_marker("docker"):
        monkeypatch.setattr("impi.testbed.backends.lifecycle.cleanup._PAUSE_S", 0.05)
