"""The measuring job: its layout, and a file that it writes."""

from __future__ import annotations

from impi.tools.tune.jobs import parse_layout


def test_layouts() -> None:
    assert parse_layout("mpich:1,pure,openmpi:12") == (
        ("mpich", 1),
        ("pure", 1),
        ("openmpi", 12),
    )
