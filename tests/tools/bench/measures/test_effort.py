"""How long measures last, where ranks run, and what each is held against."""

from __future__ import annotations

import pytest

from impi.tools.bench.measures.effort import (
    COLLECTIVES,
    LONG,
    Effort,
    across,
    against,
    calls,
    own,
)
from impi.tools.bench.timed_jobs import Alone


def test_a_quick_run_does_a_tenth_but_at_least_twice() -> None:
    argv = Effort(quick=True).program("p.py", iterations=500, skip=5)
    assert argv == ("p.py", "--json", "--iterations", "50", "--skip", "2")
    assert Effort().raw("rate", iterations=500, skip=5).argv == (
        "rate",
        "--iterations",
        "500",
        "--skip",
        "5",
    )


@pytest.mark.parametrize(("procs", "pinned"), [(2, ("--pin", "4,5")), (3, ())])
def test_ranks_are_pinned_only_where_each_has_a_core(
    procs: int, pinned: tuple[str, ...]
) -> None:
    assert (
        Effort(cores=(4, 5)).program("p.py", iterations=20, skip=20, procs=procs)[6:]
        == pinned
    )


def test_the_users_sizes_take_the_place_of_the_measures_own() -> None:
    assert Effort().chosen((8,)) == (8,)
    assert Effort(sizes=(16, 32)).chosen((8,)) == (16, 32)
    assert Effort(sizes=(16, 32)).sizes_of("Barrier") == (0,)


def test_a_library_is_held_against_each_of_its_transports_and_two_against_one() -> None:
    one, two = own(("mpich", "mpich"), (), 2), own(("mpich", "openmpi"), (), 2)
    assert [(job.vendor, job.transport) for job in one if isinstance(job, Alone)] == [
        ("mpich", "tcp"),
        ("mpich", "shm"),
    ]
    assert [job.title for job in two] == ["mpich's own TCP", "openmpi's own TCP"]
    assert own(("pure", "pure"), (), 2) == []
    assert against(("mpich", "mpich"), one, 1) == [(1,), (2,)]
    assert against(("mpich", "openmpi"), two) == [(0, 1)]
    assert against(("pure", "pure"), []) == [()]


def test_a_job_across_has_one_client_for_each_of_the_pair() -> None:
    assert across(("pure", "mpich"), (), None, 2).title == "IMPI pure:2+mpich:2"


def test_a_row_for_each_call_and_size() -> None:
    lines = {line.key: line for line in calls(Effort(sizes=(8, 1024, LONG)), (0,))}
    assert {key.partition("/")[0] for key in lines} == set(COLLECTIVES)
    assert {f"Bcast/{size}" for size in (8, 1024, LONG)} | {"Barrier/0"} <= lines.keys()
    assert lines["Bcast/8"].extra == {"min": "Bcast/8/min", "max": "Bcast/8/max"}
