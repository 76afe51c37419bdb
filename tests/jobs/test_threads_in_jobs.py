"""Several threads in MPI: no message is lost or mixed up, and calls that cannot end are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "two_threads.py")
LEVELS = str(Path(__file__).parent / "programs" / "thread_levels.py")
LAYOUTS = [["pure:2"], ["pure:1", "pure:1"], ["mpich:1", "openmpi:1"], ["mpich:2"], ["openmpi:2"]]


@pytest.mark.parametrize("clients", LAYOUTS, ids="+".join)
def test_calls_that_do_not_wait_for_other_threads_follow_each_other(
    clients: list[str], run_job: Callable[..., Any]
) -> None:
    result = run_job([PROGRAM, "polling"], clients)
    assert set(result.codes) == {0}, str(result)
    assert sorted(result.out.split("\n")) == ["", "wrong: []", "wrong: []"]


@pytest.mark.parametrize("clients", [["pure:1", "pure:1"], ["mpich:2"]], ids="+".join)
def test_calls_that_wait_for_other_threads_end_the_job(clients: list[str], run_job: Callable[..., Any]) -> None:
    result = run_job([PROGRAM, "blocking"], clients)
    assert 0 not in result.codes
    assert "were in MPI at the same time for 1 s; impi provides MPI_THREAD_SERIALIZED" in str(result)
    assert "Traceback" not in str(result) and "wrong" not in result.out


def test_the_level_is_serialized_whatever_was_asked_for(run_job: Callable[..., Any]) -> None:
    """Endpoints may block in several threads, but ordinary communicators may not."""
    result = run_job([LEVELS], ["mpich:1", "openmpi:1", "pure:1"])
    assert set(result.codes) == {0}, str(result)
    assert result.out == "level serialized\n" * 3
