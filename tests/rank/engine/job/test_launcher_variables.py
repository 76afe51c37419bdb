"""The variables of launchers after a proc has joined its job."""

from __future__ import annotations

from random import Random

from job_world import make_job

from impi.base.records import replaced
from impi.rank.engine.job.launcher_variables import VARIABLES, correct, of_client

NAMES = [name for names in VARIABLES.values() for name in names]


def test_they_are_those_of_the_job() -> None:
    job = make_job(Random(1), [2, 3])
    # Ranks 1 and 3 are on the node of rank 0, as clients on one machine are.
    procs = tuple(
        replaced(proc, ipv6=job.procs[0].ipv6) if proc.rank in (1, 3) else proc
        for proc in job.procs
    )
    environ = dict.fromkeys(NAMES, "0")
    correct(environ, replaced(job, procs=procs), 3)
    assert [environ[name] for name in NAMES] == [
        "3",
        "3",
        "5",
        "5",
        "2",
        "2",
        "2",
        "3",
        "3",
    ]


def test_none_appears_that_was_not_there() -> None:
    environ = {"PMIX_RANK": "1", **of_client(1, 2, 0, 1)}
    correct(environ, make_job(Random(1), [2, 2]), 3)
    assert environ == {"PMIX_RANK": "1", **of_client(3, 4, 0, 1)}
