"""A native vendor: nobody asks it what impi says of itself, and all else is held against it."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from forge import LIBRARY, FakeBackend, Job

from impi.lab.judge.verdict import Verdict
from impi.lab.plan.cell import parse_cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell

LIMITS = Limits(server=0.3, start=0.3, cell=0.3, grace=0.1)
LAM = "client 0 (lam) rank 0 on c0n0"


def as_native(job: Job) -> None:
    """Take away what only impi's procs can say of themselves."""
    for planned in job.roster.ranks:
        if planned.vendor == "lam":
            job.init[planned.rank]["local"] = job.done[planned.rank]["local"] = None
            job.identity[planned.rank]["sources"] = {}


def run(tweak=lambda job: None, cell="p2p.ring/lam+mpich/1x2+1x2") -> Verdict:
    def both(job: Job) -> None:
        as_native(job)
        tweak(job)

    it, backend = parse_cell(cell), FakeBackend(tweak=both)
    lab = backend.open(it.vendors, it.topology, run="r")
    return judge_cell(it, run_cell(prepare(lab, "r"), it, LIMITS, threading.Event()))


@pytest.mark.parametrize(
    "cell",
    [
        "p2p.ring/lam+mpich/1x2+1x2",
        "coll.reduce/mpich+lam/1x2+1x2",
        "coll.bcast/lam+lam/1x2+1x2",
    ],
)
def test_a_good_job_passes(cell):
    verdict = run(cell=cell)
    assert (verdict.outcome, verdict.reason) == ("pass", "")


def test_the_same_of_a_backed_vendor_does_not_pass():
    def mute(job: Job) -> None:
        job.identity[2]["sources"] = {}

    verdict = run(mute)
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.blame) == (
        "identity.source",
        "client 1 (mpich) rank 2 on c1n0",
    )


def test_reduce_on_the_point_to_point_context_is_known_of_the_whole_job():
    def moved(job: Job) -> None:
        job.messages = [replace(m, cid=0) if m.tag == 190 else m for m in job.messages]

    assert run(moved, "coll.reduce/mpich+lam/1x2+1x2").outcome == "pass"


@pytest.mark.parametrize(
    ("cell", "outcome"), [("lam+mpich", "pass"), ("mpich+lam", "fail")]
)
def test_a_host_that_listens_everywhere_is_known_of_a_vendor(cell, outcome):
    """The witness sees it or not, by the time that start-up takes."""

    def everywhere(job: Job) -> None:
        job.listeners = ["0.0.0.0:2222", "0.0.0.0:5000"]

    verdict = run(everywhere, f"p2p.ring/{cell}/1x2+1x2")
    assert (verdict.outcome, verdict.culprit.name if verdict.culprit else "") == (
        outcome,
        "" if outcome == "pass" else "start.address",
    )


def another_library(job: Job) -> None:
    job.identity[0]["libraries"] = {"/opt/lam/lib/libmpi.so": LIBRARY["mpich"]}


def another_job(job: Job) -> None:
    job.init[0]["size"] = 2


def octets_changed(job: Job) -> None:
    at = next(i for i, m in enumerate(job.messages) if m.dest == 0)
    job.messages[at] = replace(job.messages[at], payload=bytes(256))


@pytest.mark.parametrize(
    ("fault", "item", "blame"),
    [
        (another_library, "identity.library", LAM),
        (another_job, "identity.world", LAM),
        (octets_changed, "traffic.payload", "client 1 (mpich) rank 3 on c1n0"),
    ],
)
def test_what_is_seen_from_outside_counts(fault, item, blame):
    verdict = run(fault)
    assert verdict.culprit is not None
    assert (verdict.outcome, verdict.culprit.name, verdict.blame) == (
        "fail",
        item,
        blame,
    )


def test_the_receiver_is_to_blame_for_a_message_without_an_answer():
    def unanswered(job: Job) -> None:
        job.unanswered.add((2, 0))

    verdict = run(unanswered, "p2p.ssend/lam+mpich/1x2+1x2")
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.blame) == ("traffic.payload", LAM)
    assert "one that is not answered" in verdict.reason
