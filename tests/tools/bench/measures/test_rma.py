"""The measure of windows: what it holds against what, and a short real run."""

from __future__ import annotations

import pytest

from impi.tools.bench.experiment import Experiment, run
from impi.tools.bench.measures.effort import Effort
from impi.tools.bench.measures.suite import experiments


def _made(*vendors: str, quick: bool = True) -> list[Experiment]:
    return list(experiments(("rma",), vendors, Effort(quick=quick)))


def test_a_pair_and_three_clients() -> None:
    titles = [(one.vendors, one.ours.title) for one in _made("pure", "mpich")]
    assert titles[3:6] == [
        ("pure+mpich", "IMPI pure:1+mpich:1"),
        ("pure+mpich", "IMPI pure:1+mpich:1"),
        ("pure+mpich+mpich", "IMPI pure:1+mpich:1+mpich:1"),
    ]


def test_what_is_held_against_what() -> None:
    accesses, long, fences = _made("mpich")
    assert [job.title for job in accesses.references] == ["mpich's own TCP"]
    assert [job.title for job in long.references] == [
        "plain sockets, blocking",
        "mpich's own TCP",
    ]
    bounds = {
        line.key: str(line.bound)
        for one in (accesses, long, fences)
        for line in one.lines
        if line.bound
    }
    assert bounds == {
        "stream": ">= 0.9 x",
        "flush/1 over round trip": "<= 2.5 trips",
        "get over round trip": "<= 1.5 trips",
        "empty fence over Allreduce": "<= 1 calls",
    }
    beside = {
        line.key for line in accesses.lines if line.references and line.unit == "us"
    }
    assert beside == {
        f"{kind}/{count}"
        for kind in ("fence", "start-complete", "lock-unlock", "flush")
        for count in (1, 100)
    } | {"get", "fetch"}


@pytest.mark.slow
def test_a_real_run_of_windows() -> None:
    for experiment in _made("pure"):
        rows = run([experiment], 1)
        assert not [row.error for row in rows if row.error]
        assert all(row.value.median > 0 for row in rows if row.value)
