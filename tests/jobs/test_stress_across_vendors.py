"""Order, fairness and progress: many seeds inside one job of three vendors, without a hang."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pairs import pairs

PROGRAM = str(Path(__file__).parent / "programs" / "stress.py")
CLIENTS = ["mpich:2", "openmpi:2", "pure:2"]


STORMS = ["order", "fairness", "progress"]
OPTIONS = [
    pytest.param(["--datalen", "1000", "--hiwater", "2", "--ackmark", "1"], id="tight"),
    pytest.param([], id="as usual"),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "seeds", ["100", pytest.param("1000", marks=pytest.mark.proof)]
)
@pytest.mark.parametrize(("storm", "options"), pairs(STORMS, OPTIONS))
def test_storm(
    storm: str, options: list[str], seeds: str, run_job: Callable[..., object]
) -> None:
    every = dict.fromkeys(range(len(CLIENTS)), options)
    result = run_job(
        [PROGRAM, storm, seeds, "1"], CLIENTS, options=every, deadline_s=300.0
    )
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
