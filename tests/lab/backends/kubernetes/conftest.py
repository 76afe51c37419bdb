"""A stand-in of a cluster, and the file that names it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_stand_in import StandIn, stand_in


@pytest.fixture
def cluster() -> Iterator[StandIn]:
    with stand_in() as made:
        yield made


@pytest.fixture(autouse=True)
def configured(
    cluster: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.config(tmp_path)))
