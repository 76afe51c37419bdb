"""Fixtures for tests of windows of one process; see ``window_world``."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from window_world import ME, comm

from impi.rank.api import runtime
from impi.rank.api.windows.window import Win


@pytest.fixture
def active(monkeypatch: pytest.MonkeyPatch) -> None:
    """MPI is initialized."""
    monkeypatch.setattr(runtime._state, "engine", SimpleNamespace(rank=ME))
    monkeypatch.setattr(runtime._state, "finalized", False)


@pytest.fixture
def memory() -> Any:
    return np.arange(8, dtype="i4")


@pytest.fixture
def win(memory: Any) -> Iterator[Win]:
    """On ``memory``, its displacements counting elements, in an epoch."""
    window = Win.Create(memory, 4, comm=comm())
    window.Fence()
    yield window
    window.free()
