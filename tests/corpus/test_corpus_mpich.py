"""The corpus' reading of testlists, recipes, outputs and expectations, without a job."""

from __future__ import annotations

import corpus_mpich
import pytest
from corpus_jobs import Ran
from corpus_mpich import (
    ALONE,
    FAILED,
    PASSED,
    Expected,
    Result,
    divided,
    judge,
    outcome,
)
from corpus_mpich_suite import Case, read_testlist


def test_testlist():
    text = "# comment\nallred 4 arg=-count=10 env=A=b=c strict=false\n\nerr 1 resultTest=TestStatus\nbig 1 mem=6.5\n"
    first, second = read_testlist("coll", text)
    assert first == Case("coll", "allred", 4, ("-count=10",), (("A", "b=c"),))
    assert first.name == "coll/allred 4 -count=10"
    assert second.result == "TestStatus"


@pytest.mark.parametrize(
    ("layout", "procs", "clients"),
    [
        ("pure+pure", 1, "pure:1"),
        ("mpich+openmpi", 2, "mpich:1,openmpi:1"),
        ("mpich+openmpi", 3, "mpich:2,openmpi:1"),
        ("mpich+openmpi", 4, "mpich:2,openmpi:2"),
        (ALONE, 4, "own:mpich:4"),
    ],
)
def test_procs_are_divided_over_clients(layout, procs, clients):
    assert divided(layout, procs) == clients


@pytest.mark.parametrize(
    ("result", "out", "code", "expected"),
    [
        ("", " No Errors\n", 0, PASSED),
        ("", " No Errors\n", 1, FAILED),
        ("", "Found 1 errors\n", 0, FAILED),
        ("", " No Errors\n", None, FAILED),
        ("TestStatus", "", 3, PASSED),
        ("TestErrFatal", "", 0, FAILED),
    ],
)
def test_outcome(result, out, code, expected):
    assert (
        outcome(Case("f", "p", 1, result=result), Ran(out, "", code)).outcome
        == expected
    )


def test_judge_compares_with_mpich_alone_and_the_list():
    alone = {
        name: Result(name, PASSED)
        for name in ("a/good 1", "a/bad 1", "a/listed 1", "a/well 1")
    }
    alone["a/neither 1"] = Result("a/neither 1", FAILED)
    outcomes = {
        "a/good 1": PASSED,
        "a/bad 1": FAILED,
        "a/listed 1": FAILED,
        "a/well 1": PASSED,
        "a/neither 1": FAILED,
    }
    ours = {name: Result(name, found) for name, found in outcomes.items()}
    expected = [Expected(("a/listed *", "a/well *"), "because")]
    faults = list(judge({"pure+pure": ours, ALONE: alone}, expected))
    assert len(faults) == 3
    assert "a/bad 1: failed" in faults[0]
    assert "a/well 1: passes, and the list says that it does not: because" in faults[1]
    assert "own:mpich  a/neither 1: failed" in faults[2]


@pytest.mark.parametrize("found", [PASSED, FAILED])
def test_a_slow_test_is_no_fault(found):
    ours = {"a/slow 1": Result("a/slow 1", found)}
    alone = {"a/slow 1": Result("a/slow 1", PASSED)}
    assert (
        list(
            judge(
                {"pure+pure": ours, ALONE: alone},
                [Expected(("a/slow 1",), "it is slow", slow=True)],
            )
        )
        == []
    )


def test_every_expectation_has_a_reason():
    assert all(
        entry.reason and entry.tests for entry in corpus_mpich.read_expectations()
    )
