"""Runs tests against one implementation: one job for each configuration, in order of clauses.

How it works: to start a job costs more than most tests, so tests with equal configurations share
one. A test leaves the job usable if all its steps went as written; else the job is ended, and the
next test gets a new one. A configuration whose job does not start twice is given up, and its tests
are *not tested*: this says nothing about the clause.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from impi.base.remote.commands import Commands, this_machine
from impi.lab.conform.job.configuration import Configuration
from impi.lab.conform.job.tested_command import Tested
from impi.lab.conform.job.tested_job import TestedJob
from impi.lab.conform.outcomes import (
    Broken,
    ClauseVerdict,
    NotTested,
    Outcome,
    broken_outcome,
    outcome_of,
)
from impi.lab.conform.script.script_files import Test
from impi.lab.conform.server_trial import ServerTrial, TestedServer
from impi.lab.conform.steps.exchange_messages import Exchange
from impi.lab.conform.steps.group_steps import GroupSteps
from impi.lab.conform.steps.job_end import finish
from impi.lab.conform.steps.performer import Performer

# After this many starts in vain the configuration's other tests are not tried
_ATTEMPTS: Final = 2
# The configuration for tests that only look at packets of all jobs.
_ANY_JOB: Final = Test(
    name="2.3/any",
    title="A job",
    level="MUST",
    steps=("I0: echo",),
    setup=Configuration(),
)


@dataclass(slots=True)
class RunSeen:
    """Facts about all jobs of a run, besides their tests' steps."""

    # clause and sentence of each breach of the client under test, in any job
    breaches: list[tuple[str, str]]
    jobs: int = 0  # jobs that ran


def run_server(
    tested: TestedServer,
    tests: Sequence[Test],
    told: Callable[[Outcome], None],
    began: Callable[[str], None] = lambda _name: None,
) -> list[Outcome]:
    """Run tests of a server, each with a server of its own; arguments as for :class:`Campaign`.

    Raises:
        UsageError: a test or the command makes no sense.
        LaunchError: the command cannot be started.
    """

    outcomes: list[Outcome] = []

    commands = this_machine(dict(os.environ))
    try:
        for test in tests:
            began(test.name)
            started = time.monotonic()

            trial = ServerTrial(tested, test, commands)
            try:
                trial.run()
                outcome = outcome_of(
                    test,
                    ClauseVerdict.HOLDS,
                    time.monotonic() - started,
                    conversation=tuple(trial.log),
                )
            except Broken as found:
                outcome = broken_outcome(
                    test, found, time.monotonic() - started, trial.step, trial.log
                )

            outcomes.append(outcome)
            told(outcome)
    finally:
        commands.close()

    return outcomes


class Campaign:
    """One run against a client.

    Args:
        tested: the implementation.
        tests: what to run.
        told: called with each outcome, as it comes.
        began: called with the name of each test that begins.
    """

    def __init__(
        self,
        tested: Tested,
        tests: Sequence[Test],
        told: Callable[[Outcome], None],
        began: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._tested = tested
        self._tests = tests
        self._told = told
        self._began = began
        self._job: TestedJob | None = None
        self._setup: Configuration | None = None
        self._commands: Commands | None = None
        self.seen = RunSeen([])
        self._unstarted: dict[Configuration, Outcome] = {}
        # how often no job came about, by configuration
        self._attempts: Counter[Configuration] = Counter()
        self._started = False

    def run(self) -> list[Outcome]:
        """Run all tests; nothing of the implementation is left afterwards.

        Raises:
            UsageError: a test or the command makes no sense.
            LaunchError: the command cannot be started.
        """
        outcomes: list[Outcome] = []
        try:
            if self._tested.command:
                self._commands = this_machine(dict(os.environ))

            # Passive tests look at packets of any job, so there must be one.
            if self._tests and all(test.passive for test in self._tests):
                # Its outcome is none of the user's tests, and the user is not told of it.
                self._one(_ANY_JOB)

            for test in self._in_order():
                self._began(test.name)
                outcome = self._one(test)
                outcomes.append(outcome)
                self._told(outcome)

            # The last job has to end before passive tests can look at all jobs.
            self._end_job()
            for test in (test for test in self._tests if test.passive):
                outcome = self._passive(test)
                outcomes.append(outcome)
                self._told(outcome)
        finally:
            if self._job is not None:
                self._job.close()

            if self._commands is not None:
                self._commands.close()

        return outcomes

    def _in_order(self) -> list[Test]:
        """Return tests with equal configurations together; those that end their job come last."""
        active = [test for test in self._tests if not test.passive]
        # The order of first mention, so that clauses stay nearly in their order.
        shared = list(dict.fromkeys(test.setup for test in active))

        return sorted(active, key=lambda test: (shared.index(test.setup), test.ends))

    def _one(self, test: Test) -> Outcome:
        started = time.monotonic()
        setup = test.setup.with_procs(self._tested.procs)

        # A configuration without a job is not tried for each of its tests: a start may take long.
        begun = self._unstarted.get(test.setup)
        if self._hopeless and begun is None:
            begun = next(iter(self._unstarted.values()))

        if begun is not None and (
            self._hopeless or self._attempts[test.setup] >= _ATTEMPTS
        ):
            return outcome_of(
                test, ClauseVerdict.UNTESTED, 0.0, why=f"no job of {setup}: {begun.why}"
            )

        log: list[str] = []

        step, performed = "(start-up)", False
        try:
            # A test may have variants, one for each value of its parameters;
            # the first broken one ends it.
            for parameters in test.variants(setup.size):
                if setup.refusal:
                    performed = True
                    self._refused(setup)
                    continue

                job = self._job_for(test, setup)
                performed = True
                before = len(job.procs.log)

                performer = Performer(job, test, parameters)
                # The line and the conversation are needed most where the test breaks.
                try:
                    performer.run()
                finally:
                    step = performer.step
                    log += job.procs.log[before:]

                # A test that ends its job leaves none for its next variant.
                if test.ends:
                    self._end_job()
        except NotTested as reason:
            self._abandon()
            return outcome_of(
                test,
                ClauseVerdict.UNTESTED,
                time.monotonic() - started,
                why=str(reason),
            )
        except Broken as found:
            spent = time.monotonic() - started
            # Interpreters may be in calls of it, and its packets may be under way
            self._abandon()
            return self._broken(test, found, spent, (step, performed, log, setup))

        return outcome_of(
            test,
            ClauseVerdict.HOLDS,
            time.monotonic() - started,
            conversation=tuple(log),
        )

    def _broken(
        self,
        test: Test,
        found: Broken,
        spent: float,
        where: tuple[str, bool, list[str], Configuration],
    ) -> Outcome:
        step, performed, log, setup = where

        outcome = broken_outcome(test, found, spent, step, log, str(setup))
        if found.clause:
            self.seen.breaches.append(
                (found.clause, f"{found.text} (test {test.name})")
            )

        # Without a job no step was performed, so start-up itself is what broke.
        if not performed:
            self._unstarted[test.setup] = outcome

            self._attempts[test.setup] += 1
            # Start-up broke another clause than the test's: the test is not judged by it.
            if found.clause and found.clause != test.clause:
                said = f"; it said: {found.said}" if found.said else ""
                return replace(
                    outcome,
                    verdict=ClauseVerdict.UNTESTED,
                    why=f"no job (IMPI {found.clause}): {found.text}{said}",
                )

        return outcome

    def _job_for(self, test: Test, setup: Configuration) -> TestedJob:
        # A job is shared by tests of equal configuration, unless they want a fresh one.
        if self._job is not None and self._setup == setup and not setup.fresh:
            return self._job

        self._end_job()
        self._job, self._setup = TestedJob(self._tested, setup, self._commands), setup
        self.seen.jobs += 1
        self._job.open()
        self._started = True

        return self._job

    @property
    def _hopeless(self) -> bool:
        # An implementation that never came to a job is not started for each configuration.
        return not self._started and self._attempts.total() > _ATTEMPTS

    def _refused(self, setup: Configuration) -> None:
        self._end_job()
        self._job = TestedJob(self._tested, setup, self._commands)
        self._job.open_refused()
        self._abandon()

    def _abandon(self) -> None:
        if self._job is not None:
            self._look(self._job)
            self._job.close()

        self._job = self._setup = None

    def _look(self, job: TestedJob) -> None:
        """Note what the client under test did wrong in a whole job, if other tests share it."""

        # Such jobs are wrong on purpose: what a client does in them is judged by their test alone.
        if job.setup.fresh or job.setup.refusal or not job.server:
            return

        where = f"(job {job.setup})"
        self.seen.breaches += [
            (breach.clause, f"{breach.text} {where}") for breach in job.found_breaches()
        ]
        self.seen.breaches += job.found_habits()

    def _end_job(self) -> None:
        """End the job in good order, if it still runs, and examine all that was said in it."""
        job, self._job, self._setup = self._job, None, None
        if job is None:
            return

        try:
            if not job.over:
                # PROTOACKs that tests have held back are owed now, or MPI_Finalize
                # might lack credit.
                job.procs.release()
                finish(job, GroupSteps(Exchange(job)))
        except Broken as found:
            self.seen.breaches.append(
                (found.clause or "2.4", f"{found.text} (job {job.setup})")
            )
        finally:
            self._look(job)
            job.close()

    def _passive(self, test: Test) -> Outcome:
        rule = test.about or test.clause

        # Passive tests are about a rule: the clause, or the habit that they name.
        found = [text for clause, text in self.seen.breaches if clause == rule]
        if found:
            return replace(
                outcome_of(test, ClauseVerdict.BROKEN, 0.0, why=found[0]),
                actual=f"{len(found)} times in {self.seen.jobs} jobs",
            )

        if not self._started:
            return outcome_of(
                test, ClauseVerdict.UNTESTED, 0.0, why="no job came about"
            )

        return outcome_of(test, ClauseVerdict.HOLDS, 0.0)
