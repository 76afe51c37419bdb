"""Cells that are tried more than once, and labs in which nothing ends."""

from __future__ import annotations

import threading
from collections import Counter

import pytest
from forge import FakeBackend, Job

from impi.lab.cases import CASES
from impi.lab.judge.verdict import Verdict
from impi.lab.nodes.topology import parse_topology
from impi.lab.plan.cell import Cell
from impi.lab.run.execute import Limits, run_cell
from impi.lab.run.prepared_lab import prepare
from impi.lab.run.schedule import Attempt, Done, Persistence, Scheduler, combine

LIMITS = Limits(server=0.3, start=0.3, cell=0.1, grace=0.1)


def cells(*names: str, vendors=("mpich", "openmpi"), topology="1x2+1x2"):
    return [
        Cell(CASES[n], vendors, parse_topology(topology), CASES[n].variants[0])
        for n in names
    ]


def run(
    backend, what, expected=lambda _cell, _verdict: False, **persistence
) -> list[Done]:
    results: list[Done] = []
    scheduler = Scheduler(
        backend,
        "r",
        limits=LIMITS,
        persistence=Persistence(**persistence),
        expected=expected,
        jobs=1,
    )
    scheduler.run(what, lambda cell: None, results.append)
    assert backend.open_labs == 0
    return results


def outcomes(done: Done) -> list[str]:
    return [attempt.verdict.outcome for attempt in done.attempts]


def fails_at(*attempts: int, name: str = "p2p.ring"):
    """Breaks these attempts at the case, counted from 1."""
    seen = Counter[str]()

    def tweak(job: Job) -> None:
        seen[job.name] += 1
        if job.name == name and seen[job.name] in attempts:
            job.wraps[0]["status"] = 1

    return tweak


def hang(job: Job) -> None:
    job.hangs |= {"server", "client 0", "client 1"}


def test_a_retry_that_passes_is_flaky():
    (done,) = run(FakeBackend(tweak=fails_at(1)), cells("p2p.ring"), retries=3)
    assert outcomes(done) == ["fail", "pass"]
    assert (done.verdict.outcome, done.result) == ("flaky", "flaky")
    assert done.verdict.reason.startswith(
        "1 of 2 attempts did not pass; fail: end.status: "
    )
    assert done.seen is done.attempts[0].seen  # what went wrong, not what went well
    assert done.seen is not None


def test_retries_that_all_fail_are_a_failure():
    (done,) = run(FakeBackend(tweak=fails_at(1, 2, 3)), cells("p2p.ring"), retries=2)
    assert outcomes(done) == ["fail"] * 3
    assert done.verdict.outcome == "fail"
    assert "attempts" not in done.verdict.reason


def test_every_attempt_after_a_failure_has_a_lab_of_its_own():
    backend = FakeBackend(tweak=fails_at(1))
    run(backend, cells("p2p.ring"), retries=1)
    assert backend.log == ["open", "begin", "end", "close"] * 2


def test_what_passes_is_not_tried_again():
    (done,) = run(FakeBackend(), cells("p2p.ring"), retries=5)
    assert (outcomes(done), done.verdict.outcome) == (["pass"], "pass")


def test_what_is_expected_is_not_tried_again():
    (done,) = run(
        FakeBackend(tweak=fails_at(1)),
        cells("p2p.ring"),
        lambda _c, v: v.outcome == "fail",
        retries=5,
    )
    assert outcomes(done) == ["fail"]


def test_repetitions():
    (done,) = run(FakeBackend(), cells("p2p.ring"), repeat=5)
    assert (outcomes(done), done.verdict.outcome) == (["pass"] * 5, "pass")
    assert [a.seen is not None for a in done.attempts] == [False] * 4 + [True]
    assert done.seconds == sum(a.seconds for a in done.attempts)


def test_one_failure_of_many_is_flaky():
    (done,) = run(FakeBackend(tweak=fails_at(3)), cells("p2p.ring"), repeat=5)
    assert outcomes(done) == ["pass", "pass", "fail", "pass", "pass"]
    assert done.verdict.outcome == "flaky"
    assert done.deciding == 2


def test_until_it_fails():
    first, *more = run(
        FakeBackend(tweak=fails_at(3)),
        cells("p2p.ring", "p2p.any", "coll.all"),
        repeat=5,
        until_fail=True,
    )
    assert outcomes(first) == ["pass", "pass", "fail"]
    assert more == []


def test_evidence_of_a_few_failures_is_enough():
    (done,) = run(
        FakeBackend(tweak=fails_at(*range(1, 30))), cells("p2p.ring"), repeat=15
    )
    assert sum(a.seen is not None for a in done.attempts) == 10
    assert done.seen is not None


def verdict(outcome: str) -> Verdict:
    return Verdict(outcome=outcome, reason=f"a {outcome}")


@pytest.mark.parametrize(
    ("tried", "outcome"),
    [
        (["pass"], "pass"),
        (["error", "timeout", "fail"], "fail"),
        (["error", "timeout"], "timeout"),
        (["error", "error"], "error"),
        (["timeout", "pass"], "flaky"),
        (["error", "pass"], "flaky"),
    ],
)
def test_attempts_together(tried, outcome):
    attempts = tuple(Attempt(verdict=verdict(o), seconds=1.0) for o in tried)
    assert combine(attempts).outcome == outcome
    done = Done(cell=cells("p2p.ring")[0], verdict=combine(attempts), attempts=attempts)
    # A lab that fails once is not a failure of a vendor's.
    assert done.counts_as == ("error" if tried == ["error", "pass"] else outcome)


NAMES = ("p2p.ring", "p2p.any", "coll.all", "comm.split", "p2p.ssend")


def test_three_timeouts_break_the_pair():
    backend = FakeBackend(tweak=hang)
    results = run(
        backend, [*cells(*NAMES), *cells("p2p.ring", vendors=("pure", "pure"))]
    )
    broken = [r for r in results if r.cell.vendors == ("mpich", "openmpi")]
    assert [r.verdict.outcome for r in broken] == ["timeout"] * 3 + ["skipped"] * 2
    assert {r.verdict.reason for r in broken[3:]} == {
        "pair broken: 3 cells of mpich+openmpi on 1x2+1x2 timed out, so it was not tried"
    }
    assert all(
        not r.attempts and r.verdict.phase and not r.verdict.blame for r in broken[3:]
    )
    (other,) = [r for r in results if r.cell.vendors == ("pure", "pure")]
    assert other.verdict.outcome == "timeout"  # only that lab is given up


def test_failures_do_not_break_the_pair():
    results = run(
        FakeBackend(tweak=lambda job: job.wraps[0].update(status=1)), cells(*NAMES)
    )
    assert all(r.attempts for r in results)


def test_expected_timeouts_do_not_break_the_pair():
    results = run(
        FakeBackend(tweak=hang), cells(*NAMES), lambda _c, v: v.outcome == "timeout"
    )
    assert [r.verdict.outcome for r in results] == ["timeout"] * 5


def test_a_cell_that_times_out_is_not_repeated_for_ever():
    (done,) = run(FakeBackend(tweak=hang), cells("p2p.ring"), repeat=50)
    assert outcomes(done) == ["timeout"] * 3


def test_a_large_cell_gets_more_time():
    backend = FakeBackend(tweak=hang)
    results: list[Done] = []
    Scheduler(backend, "r", limits=LIMITS, slots=2).run(
        cells("p2p.ring"), lambda cell: None, results.append
    )
    assert results[0].verdict.reason.startswith("not over after 0.2 s")


def leaves(left: str, name: str):
    """A case after which something stays on a node."""

    def tweak(job: Job) -> None:
        if job.name == name:
            job.leftovers.append(left)

    return tweak


@pytest.mark.parametrize("case", ["shutdown.abort", "startup.no-common-auth"])
def test_litter_that_one_cell_is_forgiven_is_not_held_against_the_next(case):
    backend = FakeBackend(
        tweak=leaves("c0n0: file /tmp/hydra_hwloc_xmlfile_IiB5Oe", case)
    )
    results = run(backend, cells(case, "p2p.ring"))
    assert [done.verdict.outcome for done in results] == ["pass", "pass"]
    assert backend.log.count("open") == 1


@pytest.mark.parametrize(
    "left", ["process 7 sleep 600", "segment /dev/shm/mpich_shm_1", "file /tmp/another"]
)
def test_what_a_cell_really_leaves_is_red_and_its_lab_is_not_used_again(left):
    backend = FakeBackend(tweak=leaves(f"c0n0: {left}", "shutdown.abort"))
    results = run(backend, cells("shutdown.abort", "p2p.ring"))
    assert [done.verdict.outcome for done in results] == ["fail", "pass"]
    assert backend.log.count("open") == 2


def test_only_files_are_forgotten():
    """A process that stays is told of in every cell."""
    lab = FakeBackend(tweak=leaves("c0n0: process 7 sleep 600", "shutdown.abort")).open(
        ("mpich", "openmpi"), parse_topology("1x2+1x2"), run="r"
    )
    prepared = prepare(lab, "r")
    for cell in cells("shutdown.abort", "p2p.ring"):
        seen = run_cell(prepared, cell, LIMITS, threading.Event())
        assert seen.evidence.lab.leftovers == ("c0n0: process 7 sleep 600",)
