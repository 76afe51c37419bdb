"""A lab that faults hit."""

from __future__ import annotations

import pytest
from struck import World


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)
