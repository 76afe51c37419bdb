"""The verdict: whom it blames, and what it calls a timeout or the lab's own fault."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from forge import FakeBackend, Job
from judged import LIMITS, PAIR, run
from told_cells import CELL, hangs, ran

from impi.base.remote.supervised import Completed
from impi.lab.cases import CASES
from impi.lab.judge.verdict import judge
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import judge_cell


def test_a_hang_is_a_timeout_with_a_culprit():
    def hang(job: Job) -> None:
        job.hangs |= {"server", "client 0", "client 1"}
        for rank in range(4):
            del job.done[rank]
            job.wraps[rank]["status"] = None
        job.messages = [m for m in job.messages if m.src != 1]

    verdict = run(hang)
    assert (verdict.outcome, verdict.phase) == ("timeout", "case")
    assert "rank 1" in verdict.blame  # of whom nothing came over the wire

    def asked(job: Job) -> None:
        hang(job)
        within = [
            'File "/usr/lib/python3.11/selectors.py", line 5 in select',
            'File "/opt/src/impi/y.py", line 7 in f',
        ]
        job.stacks = dict.fromkeys((0, 1, 2), within)
        numpy = 'File "/opt/impi/venv/lib/python3.11/site-packages/numpy/core.py", line 1 in g'
        job.stacks[3] = [numpy, 'File "/opt/x/y.py", line 3 in f']

    verdict = run(asked)
    assert "rank 3" in verdict.blame
    assert "it stands in File" in verdict.culprit.actual
    assert verdict.reason.startswith("not over after 0.3 s; ")


@pytest.mark.parametrize(
    ("waited_s", "said"),
    [
        (10.9, "not over after 10 s"),
        (
            84.3,
            "not over after 84 s (the limit is 10 s, stretched because the machine was busy)",
        ),
    ],
)
def test_a_limit_that_was_stretched_says_so(waited_s: float, said: str) -> None:
    seen, _ = ran(hangs)
    facts = seen.facts(CELL)
    times = replace(facts.seen.times, limit_s=10.0, waited_s=waited_s)
    verdict = judge(replace(facts, seen=replace(facts.seen, times=times)))
    assert verdict.outcome == "timeout"
    assert verdict.reason.startswith(f"{said}; ")


def test_a_rank_without_a_processor_is_the_labs_own_trouble():
    def hang(job: Job) -> None:
        job.hangs |= {"server", "client 0", "client 1"}
        for rank in range(4):
            del job.done[rank]
            job.wraps[rank]["status"] = None
        job.processor_s = {3: 0.01}

    verdict = run(hang)
    assert (verdict.outcome, verdict.blame) == ("error", "lab")
    assert "rank 3 could run, but had 0.0 s of a processor" in verdict.reason

    def spins(job: Job) -> None:
        hang(job)
        job.processor_s = {3: 100.0}

    assert run(spins).outcome == "timeout"

    def sleeps(job: Job) -> None:
        """It looks for messages now and then, and is seen while it does."""
        hang(job)
        job.waited_s = {3: 0.02}

    assert run(sleeps).outcome == "timeout"

    def waits(job: Job) -> None:
        hang(job)
        job.waited_s = {3: 100.0}

    assert run(waits).outcome == "error"


def test_who_ends_first_does_not_make_a_timeout_of_the_others():
    def lost(job: Job) -> None:
        job.hangs |= {"server", "client 0"}
        job.clients[1] = Completed(argv=(), code=1, stdout=b"", stderr=b"")

    assert run(lost).outcome == "fail"


def test_who_ended_first_is_to_blame_for_who_was_taken_down():
    def taken_down(job: Job) -> None:
        for rank, status, ended in (
            (0, None, None),
            (1, -15, 9.0),
            (2, 5, 8.0),
            (3, -15, 9.5),
        ):
            job.wraps[rank].update(status=status, ended=ended)

    verdict = run(taken_down)
    assert (verdict.phase, verdict.culprit.expected, verdict.culprit.actual) == (
        "finalize",
        "rank 2 ends with 0",
        "it ended with 5",
    )


def test_a_broken_lab_is_nobodys_failure():
    backend = FakeBackend()
    backend.broken_capture = True
    it = Cell(CASES["p2p.ring"], PAIR[1], parse_topology(PAIR[2]))
    lab = backend.open(PAIR[1], it.topology, run="r")
    verdict = judge_cell(it, run_cell(prepare(lab, "r"), it, LIMITS, threading.Event()))
    assert (verdict.outcome, verdict.reason) == ("error", "tcpdump did not start")


def test_who_leaves_its_channels_first_stopped_first():
    def taken_down(job: Job) -> None:
        job.done.clear()
        job.no_fini |= {(3, 0), (3, 1)}
        for wrap in job.wraps.values():
            wrap["status"] = -15

    verdict = run(taken_down)
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.blame) == (
        "end.checks",
        "client 1 (openmpi) rank 3 on c1n0",
    )


def test_a_rank_that_crashed_stopped_before_those_that_it_took_along():
    def crashes(job: Job) -> None:
        job.done.clear()
        for rank, status, ended in (
            (0, -15, 3.0),
            (1, -15, 3.0),
            (2, 1, 2.0),
            (3, -11, 1.0),
        ):
            job.wraps[rank].update(status=status, ended=ended)

    verdict = run(crashes)
    assert verdict.culprit is not None
    assert (verdict.culprit.name, verdict.blame) == (
        "end.checks",
        "client 1 (openmpi) rank 3 on c1n0",
    )
    assert verdict.culprit.actual == "it ended with -11 before its last check"
