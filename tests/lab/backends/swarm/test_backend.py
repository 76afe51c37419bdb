"""The doctor of a swarm."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from impi.base.errors import LabError
from impi.lab.backends.swarm import backend as module
from impi.lab.backends.swarm.backend import SwarmBackend


@pytest.mark.parametrize(
    ("addresses", "ok", "cure"),
    [
        (["192.0.2.1", "192.0.2.2"], True, ""),
        (["192.0.2.1"], True, "let another engine join: docker swarm join"),
    ],
)
def test_engines_that_take_tasks_are_named(
    addresses: list[str], ok: bool, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "connect", lambda: SimpleNamespace())
    monkeypatch.setattr(module, "engines", lambda client: dict(enumerate(addresses)))
    [found] = SwarmBackend().doctor()
    assert (found.ok, found.cure) == (ok, cure)
    assert found.detail == f"{len(addresses)} nodes take tasks: {', '.join(addresses)}"


def test_no_swarm_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(client: Any) -> dict[str, str]:
        raise LabError("this engine is not a manager of a swarm")

    monkeypatch.setattr(module, "connect", lambda: SimpleNamespace())
    monkeypatch.setattr(module, "engines", none)
    [found] = SwarmBackend().doctor()
    assert (found.ok, found.detail) == (
        False,
        "this engine is not a manager of a swarm",
    )
