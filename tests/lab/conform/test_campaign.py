"""One run against a client: which tests share a job, and what becomes of those that get none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from impi.lab.conform import campaign
from impi.lab.conform.campaign import Campaign
from impi.lab.conform.job import tested_command
from impi.lab.conform.job.configuration import Configuration
from impi.lab.conform.outcomes import Broken, ClauseVerdict, NotTested, Outcome
from impi.lab.conform.script.script_files import Test

PLAIN, LARGE = Configuration(), Configuration(datalen=5000)


def test_of(name: str, setup: Configuration = PLAIN, **more) -> Test:
    steps = () if more.get("passive") else ("I0: echo",)
    return Test(name=name, title="t", level="MUST", steps=steps, setup=setup, **more)


test_of.__test__ = False  # type: ignore[attr-defined]


class Jobs:
    """Jobs of a client that does what a test says: by the name of a test what its steps raise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.opened: list[Configuration] = []
        self.closed = 0
        self.no_job: Exception | None = None
        self.raised: dict[str, Exception] = {}
        self.breaches: list[Any] = []
        self.finished = 0
        monkeypatch.setattr(campaign, "TestedJob", self.job)
        monkeypatch.setattr(campaign, "Performer", self.performer)
        monkeypatch.setattr(campaign, "finish", self.finish)
        monkeypatch.setattr(campaign, "GroupSteps", lambda _exchange: None)
        monkeypatch.setattr(campaign, "Exchange", lambda _job: None)

    def job(self, _tested: object, setup: Configuration, _commands: object) -> Any:
        def begin() -> None:
            self.opened.append(setup)
            if self.no_job is not None:
                raise self.no_job

        def close() -> None:
            self.closed += 1

        return SimpleNamespace(
            setup=setup, server="h:1", over=False, open=begin, open_refused=begin, close=close,
            procs=SimpleNamespace(log=["said"], release=lambda: None),
            found_breaches=lambda: self.breaches, found_habits=list,
        )  # fmt: skip

    def performer(self, _job: object, test: Test, _parameters: object) -> Any:
        def run() -> None:
            if test.name in self.raised:
                raise self.raised[test.name]

        return SimpleNamespace(run=run, step="I0: echo")

    def finish(self, *_: object) -> None:
        self.finished += 1


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> Jobs:
    return Jobs(monkeypatch)


def run(*tests: Test) -> dict[str, Outcome]:
    told: list[Outcome] = []
    outcomes = Campaign(tested_command.Tested(), tests, told.append).run()
    assert told == outcomes
    return {outcome.test: outcome for outcome in outcomes}


def test_equal_configurations_share_a_job_and_who_ends_it_comes_last(
    jobs: Jobs,
) -> None:
    found = run(test_of("3.1/a", ends=True), test_of("3.1/b", LARGE), test_of("3.1/c"))
    assert list(found) == ["3.1/c", "3.1/a", "3.1/b"]
    assert {outcome.verdict for outcome in found.values()} == {ClauseVerdict.HOLDS}
    assert jobs.opened == [PLAIN, LARGE]
    assert (jobs.closed, jobs.finished) == (2, 2)


def test_a_fresh_job_is_for_one_test_alone(jobs: Jobs) -> None:
    fresh = Configuration(fresh=True)
    run(test_of("3.1/a", fresh), test_of("3.1/b", fresh))
    assert jobs.opened == [fresh, fresh]


def test_after_a_broken_test_the_next_one_gets_another_job(jobs: Jobs) -> None:
    jobs.raised["3.1/a"] = Broken("no", expected="x", actual="y", octets=b"z")
    found = run(test_of("3.1/a"), test_of("3.1/b"))
    broken = found["3.1/a"]
    assert (broken.verdict, broken.why, broken.expected, broken.actual) == (
        ClauseVerdict.BROKEN,
        "no",
        "x",
        "y",
    )
    assert (broken.step, broken.octets) == ("I0: echo", "7a")
    assert found["3.1/b"].verdict is ClauseVerdict.HOLDS
    assert len(jobs.opened) == 2


def test_where_the_text_is_lost_nothing_is_decided(jobs: Jobs) -> None:
    jobs.raised["3.1/a"] = Broken("no")
    assert (
        run(test_of("3.1/a", reading=True))["3.1/a"].verdict is ClauseVerdict.UNDECIDED
    )


def test_what_cannot_be_tested_is_no_fault(jobs: Jobs) -> None:
    jobs.raised["3.1/a"] = NotTested("give --np 2")
    outcome = run(test_of("3.1/a"))["3.1/a"]
    assert (outcome.verdict, outcome.why) == (ClauseVerdict.UNTESTED, "give --np 2")


def test_a_job_that_does_not_begin_is_tried_twice_and_is_the_fault_of_its_clause(
    jobs: Jobs,
) -> None:
    jobs.no_job = Broken("no label", clause="2.3.5")
    found = run(*(test_of(f"3.1/{letter}") for letter in "abc"), test_of("2.3.5/x"))
    assert len(jobs.opened) == 2
    assert found["3.1/a"].verdict is ClauseVerdict.UNTESTED
    assert found["3.1/a"].why == "no job (IMPI 2.3.5): no label"
    assert found["3.1/c"].why.startswith("no job of 2*+2,1: ")


def test_without_any_job_other_configurations_are_not_tried_for_ever(
    jobs: Jobs,
) -> None:
    jobs.no_job = Broken("no label", clause="2.3.5")
    run(*(test_of(f"3.1/{n}", Configuration(datalen=1000 + n)) for n in range(6)))
    assert len(jobs.opened) == 3


def test_passive_tests_look_at_all_jobs(jobs: Jobs) -> None:
    jobs.breaches = [SimpleNamespace(clause="3.9", text="pk_tag is -1")]
    found = run(
        test_of("3.1/a"),
        test_of("3.9/in-every-job", passive=True),
        test_of("3.8/in-every-job", passive=True),
    )
    wrong = found["3.9/in-every-job"]
    assert (wrong.verdict, wrong.why) == (
        ClauseVerdict.BROKEN,
        "pk_tag is -1 (job 2*+2,1)",
    )
    assert wrong.actual == "1 times in 1 jobs"
    assert found["3.8/in-every-job"].verdict is ClauseVerdict.HOLDS


def test_passive_tests_alone_have_a_job_of_their_own(jobs: Jobs) -> None:
    assert run(test_of("3.9/a", passive=True))["3.9/a"].verdict is ClauseVerdict.HOLDS
    assert len(jobs.opened) == 1
    jobs.no_job = Broken("no")
    assert run(test_of("3.9/a", passive=True))["3.9/a"].why == "no job came about"
