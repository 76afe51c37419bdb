"""Faults planted in impi are noticed by the tester, each by the test of the clause that it breaks.

``mutants.toml`` names them. One runs here, one or two of each clause are proofs, and all of them
run every week (``python tests/planted``). A run without a fault is
``test_all_of_it_holds_for_every_vendor``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from planted_faults import (
    ROOT,
    Fault,
    Found,
    copy_to,
    daily,
    faults,
    judged,
    known_tests,
    planted,
)

UNSEEN = {"2.1", "2.2", "2.2.3", "2.3"}
"""Sections that say what a user types, or have no rule of their own."""


def test_the_table() -> None:
    known = known_tests()
    found = faults()
    assert len({(fault.clause, fault.name) for fault in found}) == len(found) >= 100
    assert len(daily()) >= 40
    assert [
        fault.name for fault in found if known[fault.test].clause != fault.clause
    ] == []
    for fault in found:
        assert (ROOT / fault.file).read_text("utf-8").count(fault.old) == 1, fault.name
    titles = tomllib.loads((ROOT / "tests/clauses/clauses.toml").read_text("utf-8"))[
        "titles"
    ]
    assert titles.keys() - {fault.clause for fault in daily()} == UNSEEN


def test_a_job_that_does_not_begin_catches_no_fault_of_chapter_3() -> None:
    of_2, of_3 = (
        next(fault for fault in faults() if fault.clause == clause)
        for clause in ("2.3.5", "3.6")
    )
    in_start, in_step = (
        Found("broken", step, "", "") for step in ("(start-up)", "S0 <- I0: nothing")
    )
    assert (in_start.caught(of_2), in_start.caught(of_3), in_step.caught(of_3)) == (
        True,
        False,
        True,
    )
    assert not Found("holds", "", "", "").caught(of_3)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of impi in which faults can be planted."""
    folder: Path = tmp_path_factory.mktemp("tree")
    copy_to(folder)
    return folder


Check = Callable[[Fault], None]


@pytest.fixture
def check(tree: Path, tmp_path: Path) -> Check:
    def caught(fault: Fault) -> None:
        with planted(tree, fault):
            found = judged(tree, fault.test, tmp_path / "run.json")
        assert found.caught(fault), found

    return caught


def test_a_fault_is_caught(check: Check) -> None:
    check(next(fault for fault in faults() if fault.name == "a SYNCACK for each DATA"))


@pytest.mark.proof
@pytest.mark.parametrize(
    "fault", daily(), ids=lambda fault: f"{fault.clause} {fault.name}"
)
def test_faults_of_each_clause_are_caught(fault: Fault, check: Check) -> None:
    check(fault)
