"""Windows of several clients: random epochs, late values, agents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parents[3] / "jobs" / "programs" / "windows_random.py")
LAYOUTS = (
    ["pure:1", "pure:2"],
    ["mpich:2", "openmpi:1"],
    ["mpich:1", "openmpi:1", "pure:1"],
)


@pytest.mark.parametrize("clients", LAYOUTS, ids="+".join)
def test_random_epochs_against_a_model(
    clients: list[str], run_job: Callable[..., Any]
) -> None:
    result = run_job([PROGRAM, "1", "6"], clients)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "windows\n" * 3


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("clients", LAYOUTS, ids="+".join)
def test_many_random_epochs(
    clients: list[str], seed: int, run_job: Callable[..., Any]
) -> None:
    result = run_job([PROGRAM, str(seed), "40"], clients, deadline_s=300.0)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "windows\n" * 3


@pytest.mark.parametrize(
    "clients",
    [["pure:1", "pure:1"], ["mpich:2"], ["openmpi:1", "pure:1"]],
    ids="+".join,
)
def test_a_get_has_the_values_of_its_epoch(
    clients: list[str], run_job: Callable[..., Any]
) -> None:
    result = run_job([str(Path(PROGRAM).with_name("windows_late.py"))], clients)
    assert set(result.codes) == {0}, str(result)


@pytest.mark.parametrize(
    "more",
    [["--hosts", "client"], ["--datalen", "256", "--hiwater", "4", "--ackmark", "2"]],
)
def test_with_agents_and_little_room(
    more: list[str], run_job: Callable[..., Any]
) -> None:
    result = run_job(
        [PROGRAM, "2", "4"], ["pure:2", "pure:1"], options={0: more, 1: more}
    )
    assert set(result.codes) == {0}, str(result)
    assert result.out == "windows\n" * 3
