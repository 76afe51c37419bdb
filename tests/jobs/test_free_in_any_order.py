"""Comm.Free does not wait for other procs, as with MPICH and Open MPI alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "free_in_any_order.py")
JOBS = [
    ["pure:2", "mpich:1"],
    ["openmpi:1", "mpich:2"],
    ["mpich:3"],
    ["pure:1", "pure:1"],
]


@pytest.mark.parametrize("clients", JOBS, ids="+".join)
def test_no_proc_waits_for_the_others(
    clients: list[str], run_job: Callable[..., Any]
) -> None:
    result = run_job([PROGRAM], clients, deadline_s=40)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "all right\n"


def test_nor_with_mpich_alone(run_alone: Callable[..., Any]) -> None:
    theirs = run_alone([PROGRAM], "mpich", 3)
    assert (theirs.code, theirs.out.strip()) == (0, "all right"), theirs
