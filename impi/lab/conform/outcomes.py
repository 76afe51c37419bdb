"""Outcomes of tests, and verdicts on clauses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol


class Titled(Protocol):
    """The facts that an outcome repeats of its test."""

    @property
    def name(self) -> str: ...  # with the clause

    @property
    def clause(self) -> str: ...

    @property
    def level(self) -> str: ...  # ``MUST`` or ``SHOULD``

    @property
    def title(self) -> str: ...

    @property
    def reading(self) -> bool: ...


class ClauseVerdict(Enum):
    """The verdict on a test or on a clause."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNTESTED = "not tested"
    # Not as we read it; the text of the specification is lost there
    UNDECIDED = "not decidable"


class Broken(Exception):
    """The implementation under test did otherwise than a step expects.

    Args:
        text: one sentence.
        expected: what should have come.
        actual: what came.
        octets: the octets in question, if there are any.
        clause: the clause that decides; empty: that of the test.
    """

    def __init__(
        self,
        text: str,
        *,
        expected: str = "",
        actual: str = "",
        octets: bytes = b"",
        clause: str = "",
    ) -> None:
        super().__init__(text)
        self.text = text
        self.expected = expected
        self.actual = actual
        self.octets = octets
        self.clause = clause
        self.said = ""  # the last words of the implementation, if no job came about


class NotTested(Exception):
    """A test cannot be run; ``str()`` says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The outcome of one test."""

    test: str
    clause: str
    level: str
    title: str
    verdict: ClauseVerdict
    seconds: float = 0.0
    why: str = ""  # one sentence; empty where all holds
    step: str = ""  # the step at which it ended
    expected: str = ""
    actual: str = ""
    octets: str = ""  # in hexadecimal digits
    configuration: str = ""
    conversation: tuple[str, ...] = ()  # all that was said during this test

    def counts_against(self, *, strict: bool) -> bool:
        """Whether it fails the run: a broken MUST; if ``strict``, anything that does not hold."""
        if strict:
            return self.verdict is not ClauseVerdict.HOLDS

        return self.verdict is ClauseVerdict.BROKEN and self.level == "MUST"


def outcome_of(
    test: Titled,
    verdict: ClauseVerdict,
    seconds: float,
    why: str = "",
    conversation: tuple[str, ...] = (),
) -> Outcome:
    """Return the outcome of a test."""
    return Outcome(
        test=test.name,
        clause=test.clause,
        level=test.level,
        title=test.title,
        verdict=verdict,
        seconds=seconds,
        why=why,
        conversation=conversation,
    )


def broken_outcome(
    test: Titled,
    found: Broken,
    seconds: float,
    step: str,
    conversation: Sequence[str],
    configuration: str = "",
) -> Outcome:
    """Return the outcome of a test that a broken step has ended."""
    verdict = ClauseVerdict.UNDECIDED if test.reading else ClauseVerdict.BROKEN
    return replace(
        outcome_of(test, verdict, seconds, found.text, tuple(conversation)),
        step=step,
        expected=found.expected,
        actual=found.actual,
        octets=found.octets.hex(),
        configuration=configuration,
    )


_ORDER = (
    ClauseVerdict.BROKEN,
    ClauseVerdict.UNDECIDED,
    ClauseVerdict.HOLDS,
    ClauseVerdict.UNTESTED,
)


def of_clause(outcomes: list[Outcome]) -> ClauseVerdict:
    """Return a clause's verdict: the worst of its tests; tests that were not run say nothing."""
    found = {outcome.verdict for outcome in outcomes}
    return next(
        (verdict for verdict in _ORDER if verdict in found), ClauseVerdict.UNTESTED
    )
