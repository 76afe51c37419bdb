"""What the environment tells a program, and the Pythons that it starts itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = Path(__file__).parent / "programs"


def test_launchers_variables_become_those_of_the_job(run_job: Callable[..., Any]) -> None:
    result = run_job([str(PROGRAMS / "launcher_variables.py")], ["pure:2", "mpich:2", "openmpi:1"])
    assert set(result.codes) == {0}, result
    assert result.out == "[('0', '2'), ('1', '2'), ('0', '2'), ('1', '2'), ('0', None)]\n"


@pytest.mark.parametrize("clients", [["pure:2", "mpich:1"], ["openmpi:1"]])
def test_a_python_that_a_rank_starts_is_a_job_of_its_own(clients: list[str], run_job: Callable[..., Any]) -> None:
    result = run_job([str(PROGRAMS / "spawned_child.py")], clients)
    assert set(result.codes) == {0}, result
    size = sum(int(client.partition(":")[2]) for client in clients)
    found = [(rank * rank, 0, 1) for rank in range(size)]
    assert result.out == f"spawn {found}\nforkserver {found}\n"
