"""The outcome of clauses and runs, from the outcomes of tests."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from impi.lab.conform.outcomes import Broken, ClauseVerdict, of_clause, outcome_of

HOLDS, BROKEN = ClauseVerdict.HOLDS, ClauseVerdict.BROKEN
UNTESTED, UNDECIDED = ClauseVerdict.UNTESTED, ClauseVerdict.UNDECIDED
MUST = SimpleNamespace(
    name="3.6/a", clause="3.6", level="MUST", title="t", reading=False
)
SHOULD = SimpleNamespace(
    name="3.6/b", clause="3.6", level="SHOULD", title="t", reading=False
)


@pytest.mark.parametrize(
    ("verdicts", "clause"),
    [
        ([HOLDS, UNTESTED], HOLDS),
        ([HOLDS, UNDECIDED], UNDECIDED),
        ([UNDECIDED, BROKEN, HOLDS], BROKEN),
        ([UNTESTED], UNTESTED),
        ([], UNTESTED),
    ],
)
def test_a_clause_is_as_good_as_its_worst_test(
    verdicts: list[ClauseVerdict], clause: ClauseVerdict
) -> None:
    assert of_clause([outcome_of(MUST, verdict, 0.0) for verdict in verdicts]) is clause


@pytest.mark.parametrize(
    ("test", "verdict", "counts", "strictly"),
    [
        (MUST, BROKEN, True, True),
        (SHOULD, BROKEN, False, True),
        (MUST, UNTESTED, False, True),
        (MUST, UNDECIDED, False, True),
        (MUST, HOLDS, False, False),
    ],
)
def test_what_makes_a_run_fail(
    test, verdict: ClauseVerdict, counts: bool, strictly: bool
) -> None:
    outcome = outcome_of(test, verdict, 1.5, "why", ("line",))
    assert outcome.counts_against(strict=False) is counts
    assert outcome.counts_against(strict=True) is strictly
    assert (outcome.test, outcome.clause, outcome.seconds, outcome.why) == (
        test.name,
        "3.6",
        1.5,
        "why",
    )


def test_what_is_broken_is_told_in_parts() -> None:
    broken = Broken("no", expected="a", actual="b", octets=b"c", clause="3.6")
    assert (str(broken), broken.text, broken.expected, broken.actual) == (
        "no",
        "no",
        "a",
        "b",
    )
    assert (broken.octets, broken.clause, broken.said) == (b"c", "3.6", "")
