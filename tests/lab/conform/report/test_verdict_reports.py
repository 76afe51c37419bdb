"""Reports of a run: lines, the table of clauses, JSON, JUnit, HTML, and several runs together."""

from __future__ import annotations

import json
import xml.etree.ElementTree as tree
from dataclasses import replace
from pathlib import Path

import pytest

from impi.base.errors import UsageError
from impi.lab.conform.outcomes import ClauseVerdict, Outcome
from impi.lab.conform.report import verdict_reports as reports


def outcome(
    test: str, verdict: ClauseVerdict, why: str = "", level: str = "MUST"
) -> Outcome:
    clause = test.partition("/")[0]
    return Outcome(
        test=test,
        clause=clause,
        level=level,
        title="T",
        verdict=verdict,
        seconds=0.25,
        why=why,
    )


OUTCOMES = [
    outcome("3.10/b", ClauseVerdict.UNTESTED, "no job"),
    replace(
        outcome("3.6/b", ClauseVerdict.BROKEN, "a <PROTOACK> is missing"),
        step="S0 <- I0",
        octets="00ff",
    ),
    outcome("3.6/a", ClauseVerdict.HOLDS),
    outcome("3.9/a", ClauseVerdict.UNDECIDED, "the text is lost", "SHOULD"),
]


def test_a_line_for_a_test() -> None:
    assert reports.line(OUTCOMES[2]) == "holds         3.6/a"
    assert reports.line(OUTCOMES[3]) == "not decidable 3.9/a (SHOULD): the text is lost"


def test_clauses_are_in_order_with_their_titles() -> None:
    lines = reports.summary(OUTCOMES)
    assert [line.split()[1] for line in lines[:-1]] == ["3.6", "3.9", "3.10"]
    assert (
        lines[0]
        == "IMPI 3.6     broken        1 holds, 1 broken                        flow control"
    )
    assert lines[-1] == "4 tests: 1 holds, 1 broken, 1 not tested, 1 not decidable"
    assert [o.test for o in reports.by_clause(OUTCOMES)["3.6"]] == ["3.6/a", "3.6/b"]


def test_details_leave_out_what_is_not_known() -> None:
    told = reports.details(OUTCOMES[1])
    assert [line.split()[0] for line in told] == ["clause", "step", "octets"]


def test_json_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(reports.as_json("mpich", OUTCOMES))
    name, verdicts = reports.read_run(path)
    assert (name, verdicts) == (
        "mpich",
        {"3.6": "broken", "3.9": "not decidable", "3.10": "not tested"},
    )
    assert json.loads(path.read_text())["tests"][1]["verdict"] == "broken"
    for wrong in ("", "[]", '{"form": "other"}', '{"form": "impi conform 1"}'):
        path.write_text(wrong)
        with pytest.raises(UsageError, match="not a report of impi conform --json"):
            reports.read_run(path)


def test_junit_counts_and_escapes() -> None:
    suite = tree.fromstring(reports.as_junit("a & b", OUTCOMES))
    assert suite.attrib == {
        "name": "a & b",
        "tests": "4",
        "failures": "1",
        "skipped": "2",
    }
    failure = suite.find("testcase/failure")
    assert failure is not None
    assert failure.attrib["message"] == "a <PROTOACK> is missing"
    assert "S0 <- I0" in (failure.text or "")


def test_a_page_escapes_what_an_implementation_says() -> None:
    page = reports.as_html("x<y", OUTCOMES)
    assert "<title>x&lt;y</title>" in page
    assert "a &lt;PROTOACK&gt; is missing" in page
    assert page.count("<details>") == len(OUTCOMES)


def test_runs_beside_each_other() -> None:
    table = reports.table(
        [
            ("mpich", {"3.6": "broken", "3.10": "holds"}),
            ("other", {"3.9": "not decidable"}),
        ]
    )
    assert [line.split() for line in table] == [
        ["clause", "mpich", "other"],
        ["3.6", "BROKEN", "-"],
        ["3.9", "-", "undecided"],
        ["3.10", "holds", "-"],
    ]
