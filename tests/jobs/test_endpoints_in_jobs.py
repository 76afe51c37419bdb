"""Endpoints over vendors: threads of one process that are ranks, in blocking calls at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "endpoints.py")
PARTS = ["ring", "traffic", "collectives"]
LAYOUTS = [
    pytest.param(["mpich:1", "openmpi:1"], "2", 1, id="two vendors x 2"),
    pytest.param(["mpich:1", "openmpi:1", "pure:1"], "2", 1, id="three vendors x 2", marks=pytest.mark.proof),
    pytest.param(["pure:1", "mpich:2"], "8", 1, id="three procs x 8", marks=pytest.mark.proof),
    pytest.param(["pure:1"], "3", 1, id="one proc x 3"),
    pytest.param(["pure:1", "openmpi:1"], "8", 20, id="long", marks=pytest.mark.proof),
]


@pytest.mark.parametrize(("clients", "threads", "times"), LAYOUTS)
def test_endpoints(clients: list[str], threads: str, times: int, run_job: Callable[..., Any]) -> None:
    result = run_job([PROGRAM, threads, *PARTS * times], clients, deadline_s=90.0 * times)
    assert set(result.codes) == {0}, str(result)
    assert result.out.split() == ["ok"] * sum(int(client.partition(":")[2]) for client in clients), str(result)
