"""A lab on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.lab.backends.loopback.backend import LoopbackBackend
from impi.lab.nodes.interface import Lab
from impi.lab.nodes.topology import parse_topology

PURE2 = parse_topology("1x2+1x1")


@pytest.fixture
def lab(temp: Path) -> Iterator[Lab]:
    lab = LoopbackBackend().open(["pure", "pure"], PURE2, run="test")
    yield lab
    lab.close()
