"""Procs' knowledge of each other's calls: values of all, and the first failure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from impi.protocol.semantics.errors import MPIException, error
from impi.rank.api.constants import ERR_AMODE, ERR_OTHER
from impi.rank.api.files.agreement import attempt, decided, gathered


class Team:
    """A communicator of threads."""

    def __init__(self, rank: int, rows: list[Any], barrier: threading.Barrier) -> None:
        self.rank = rank
        self._rows, self._barrier = rows, barrier

    def allgather(self, value: Any) -> list[Any]:
        self._rows[self.rank] = value
        self._barrier.wait(20)
        rows = list(self._rows)
        self._barrier.wait(20)
        return rows

    def bcast(self, value: Any, root: int) -> Any:
        return self.allgather(value)[root]


def everybody(call: Callable[[Any], Any], size: int = 3) -> list[Any]:
    """Return the result or exception of the call at each proc."""
    rows: list[Any] = [None] * size
    barrier = threading.Barrier(size)

    def proc(rank: int) -> Any:
        try:
            return call(Team(rank, rows, barrier))
        except Exception as failure:
            return failure

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(proc, range(size)))


def test_values_of_all() -> None:
    assert everybody(lambda team: gathered(team, team.rank * 2)) == [[0, 2, 4]] * 3


@pytest.mark.parametrize(
    ("failure", "code", "told"),
    [
        (error("ERR_AMODE", "two modes"), ERR_AMODE, "rank 1: two modes"),
        (OSError("disk"), ERR_OTHER, "rank 1: OSError: disk"),
    ],
)
def test_the_first_failure_is_raised_at_all(
    failure: Exception, code: int, told: str
) -> None:
    failures = [None, failure, error("ERR_IO", "later")]
    found = everybody(lambda team: gathered(team, None, failures[team.rank]))
    assert found[1:] == failures[1:]  # each its own one
    assert isinstance(found[0], MPIException)
    assert (found[0] == code, found[0].told, told in str(found[0])) == (
        True,
        True,
        True,
    )


def test_one_decides_for_all() -> None:
    calls: list[int] = []

    def decide(team: Any) -> str:
        def call() -> str:
            calls.append(team.rank)
            return "decided"

        return decided(team, 2, call)

    assert everybody(decide) == ["decided"] * 3
    assert calls == [2]


def test_the_failure_of_who_decides_is_everybodys() -> None:
    def call() -> None:
        raise error("ERR_AMODE", "none")

    found = everybody(lambda team: decided(team, 1, call))
    assert [str(failure).rpartition(": ")[2] for failure in found] == ["none"] * 3
    assert ["rank 1" in str(failure) for failure in found] == [True, False, True]


def test_an_attempt() -> None:
    assert attempt(lambda: 3) == (3, None)
    value, failure = attempt(lambda: 1 // 0)
    assert value is None
    assert isinstance(failure, ZeroDivisionError)
