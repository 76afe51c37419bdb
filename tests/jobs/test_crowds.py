"""Eight ranks, which on most machines of CI is more than there are cores."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pairs import pairs

PROGRAM = str(Path(__file__).parent / "programs" / "crowd.py")


@pytest.mark.slow
@pytest.mark.parametrize(
    # A proc that waits under one library polls a thousand times a second: 2 % if alone.
    ("clients", "share", "spin"),
    pairs(
        [
            pytest.param(["pure:4", "pure:4"], 0.05, id="pure"),
            pytest.param(["mpich:3", "openmpi:3", "pure:2"], 0.1, id="libraries"),
        ],
        [pytest.param("", id="learns"), pytest.param("0", id="blocks")],
    ),
)
def test_all_move_and_who_waits_sleeps(
    clients: list[str], share: float, spin: str, run_job: Callable[..., Any]
) -> None:
    result = run_job([PROGRAM, "3"], clients, environ={"IMPI_SPIN": spin})
    assert set(result.codes) == {0}, str(result)
    assert float(result.out) < share
