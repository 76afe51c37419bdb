"""Communicators of every kind on jobs of two and three vendors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parents[3] / "jobs" / "programs" / "communicators.py")


@pytest.mark.parametrize(
    "clients",
    [
        pytest.param(["pure:4"], id="pure alone"),
        pytest.param(["mpich:2", "openmpi:2"], id="mpich+openmpi"),
        pytest.param(["openmpi:1", "pure:2", "mpich:2"], id="openmpi+pure+mpich"),
        pytest.param(["pure:1"] * 6, id="six clients"),
    ],
)
def test_communicators(clients: list[str], run_job: Callable[..., object]) -> None:
    result = run_job([PROGRAM], clients)
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
