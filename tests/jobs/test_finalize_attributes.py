"""Attributes of COMM_SELF at Finalize, beside mpi4py over MPICH alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "finalize_attributes.py")
CALLED = ["second", "again", "last", "fails", "first"]
JOBS = [["mpich:2"], ["pure:2"], ["mpich:1", "openmpi:1"]]


@pytest.mark.parametrize("clients", JOBS, ids="+".join)
def test_deleted_in_reverse_order_before_anything_else(
    clients: list[str], run_job: Callable[..., Any], run_alone: Callable[..., Any]
) -> None:
    theirs = run_alone([PROGRAM], "mpich", 2)
    assert theirs.code == 0, theirs
    assert len(theirs.out.splitlines()) == len(CALLED) + 1
    ours = run_job([PROGRAM], clients)
    assert set(ours.codes) == {0}, str(ours)
    assert ours.out == theirs.out
    for client in ours.clients:
        assert "ValueError: told, and Finalize goes on" in client.err


def test_the_end_of_a_program_deletes_them_too(run_job: Callable[..., Any]) -> None:
    ours = run_job([PROGRAM, "implicit"], ["pure:1", "mpich:1"])
    assert set(ours.codes) == {0}, str(ours)
    assert [line.split()[0] for line in ours.out.splitlines()] == CALLED
