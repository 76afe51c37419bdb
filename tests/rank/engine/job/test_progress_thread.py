"""Several threads in MPI: nothing is lost or mixed up, and none waits for another in vain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parents[3] / "jobs" / "programs" / "two_threads.py")
MANY = str(Path(__file__).parents[3] / "jobs" / "programs" / "many_threads.py")
LEVELS = str(Path(__file__).parents[3] / "jobs" / "programs" / "thread_levels.py")
LAYOUTS = [
    ["pure:2"],
    ["pure:1", "pure:1"],
    ["mpich:1", "openmpi:1"],
    ["mpich:2"],
    ["openmpi:2"],
]


@pytest.mark.parametrize("clients", LAYOUTS, ids="+".join)
@pytest.mark.parametrize("how", ["polling", "blocking", "accepting"])
def test_threads_need_not_wait_for_each_other(
    clients: list[str], how: str, run_job: Callable[..., Any]
) -> None:
    """``blocking``: a receive waits for what another thread's peer sends only then."""
    result = run_job([PROGRAM, how], clients)
    assert set(result.codes) == {0}, str(result)
    assert sorted(result.out.split("\n")) == ["", "wrong: []", "wrong: []"]


@pytest.mark.parametrize(
    "clients", [["pure:1", "pure:1"], ["mpich:2", "openmpi:2"]], ids="+".join
)
@pytest.mark.parametrize(
    "what", ["messages", "exchange", "communicators", "collectives"]
)
def test_all_threads_of_all_procs_at_once(
    clients: list[str], what: str, run_job: Callable[..., Any]
) -> None:
    # In collectives and creations of a client each thread spins: more would starve two cores.
    rounds, threads = (
        ("3", "2") if what in ("communicators", "collectives") else ("10", "4")
    )
    result = run_job([MANY, what, "1", rounds, threads], clients)
    assert set(result.codes) == {0}, str(result)
    assert set(result.out.split("\n")) == {"", "wrong: []"}


@pytest.mark.parametrize(
    "clients", [["pure:1", "pure:1"], ["mpich:1", "openmpi:1", "pure:1"]], ids="+".join
)
def test_threads_of_all_kinds_at_a_short_switch(
    clients: list[str], run_job: Callable[..., Any]
) -> None:
    """Windows, files, probes, cancels and handed-over requests, while Python switches each us."""
    result = run_job([MANY, "kinds", "1", "40", "8"], clients)
    assert set(result.codes) == {0}, str(result)
    assert set(result.out.split("\n")) == {"", "wrong: []"}


def test_the_level_is_multiple(run_job: Callable[..., Any]) -> None:
    result = run_job([LEVELS], ["mpich:1", "openmpi:1", "pure:1"])
    assert set(result.codes) == {0}, str(result)
    assert result.out == "level multiple\n" * 3


def test_with_a_client_of_impi_0_0_the_level_is_serialized(
    run_job: Callable[..., Any],
) -> None:
    """Threads that create communicators at once need a value of ours in the agreement on ids."""
    result = run_job(
        [LEVELS, "alone"], ["pure:1", "pure:1"], options={1: ["--impi-version", "0.0"]}
    )
    assert set(result.codes) == {0}, str(result)
    assert result.out == "level serialized\n" * 2
