"""Messages between a job and another one that no label of its start-up tells of."""

from __future__ import annotations

from forge import Job

from impi.lab.dissect import dissect
from impi.lab.dissect.jobs.meetings import meetings

NODES = {"c0n0": "x", "c1n0": "y"}


def job() -> Job:
    return Job.good("later.spawn/pure+mpich/1x2+1x2", "nonce", NODES)


def test_the_others_have_the_ranks_behind_the_job() -> None:
    wanted = {(m.src, m.dest, m.tag, m.payload) for m in job().meetings}
    seen = dissect([capture.pcap for capture in job().captures()])
    assert {(m.src, m.dest, m.tag, m.payload) for m in meetings(seen)} == wanted
    assert {rank for m in wanted for rank in m[:2]} == {2, 3, 4, 5}


def test_a_job_that_meets_nobody() -> None:
    alone = job()
    alone.meetings = []
    assert meetings(dissect([capture.pcap for capture in alone.captures()])) == []
    assert meetings(dissect([])) == []
