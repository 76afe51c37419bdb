"""The end of a run: what is written, what is said, and the code."""

from __future__ import annotations

import json
from datetime import date
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console
from told_cells import CELL, hangs, ran

from impi.base.errors import LabError
from impi.lab.judge.expectations import Expectations, Row
from impi.lab.plan.matrix import Excluded, Plan
from impi.lab.report.conclusion import Conclusion, explained
from impi.lab.report.results import RunFolder
from impi.lab.run.schedule import Attempt, Done

ROW = Row(
    number=1,
    cells=(CELL.id,),
    result="timeout",
    issue="https://t.example/1",
    until=date(2999, 1, 1),
)


def done(*, fails: bool = False) -> Done:
    seen, verdict = ran(hangs) if fails else ran()
    return Done(
        cell=CELL,
        verdict=verdict,
        attempts=(Attempt(verdict=verdict, seconds=1.5, seen=seen),),
    )


def concluded(
    tmp_path: Path, *results: Done, interrupted: bool = False
) -> tuple[Conclusion, str]:
    plan = Plan((CELL,), (Excluded(CELL, "no such node"),))
    folder = RunFolder.create(tmp_path, plan, argv=["run"], backend="fake", seed=7)
    for each in results:
        folder.add(each)
    conclusion = Conclusion(
        plan, folder, results, Expectations(), interrupted=interrupted
    )
    folder.close()
    screen = StringIO()
    conclusion.show(Console(file=screen, width=200))
    return conclusion, screen.getvalue()


def test_what_passed(tmp_path: Path) -> None:
    conclusion, said = concluded(tmp_path, done())
    assert conclusion.code == 0
    assert "1 pass, 1 unsupported; unsupported here: no such node" in said
    assert said.splitlines()[-1].startswith("report ")
    assert (
        json.loads((tmp_path / "latest/results.json").read_text("utf-8"))["exit"] == 0
    )


@pytest.mark.parametrize(
    ("interrupted", "code", "words"),
    [(True, 2, "run --resume' continues it"), (False, 3, "")],
)
def test_what_was_not_come_to(
    interrupted: bool, code: int, words: str, tmp_path: Path
) -> None:
    conclusion, said = concluded(tmp_path, interrupted=interrupted)
    assert conclusion.code == code
    assert words in said and "1 skipped" in said


def test_pages_that_cannot_be_written_change_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_folder: Path) -> Path:
        raise LabError("the pages of x cannot be written: No space left on device")

    monkeypatch.setattr("impi.lab.report.conclusion.write_pages", full)
    conclusion, said = concluded(tmp_path, done())
    assert conclusion.code == 0
    assert (
        "report is missing: the pages of x cannot be written: No space left on device; 'impilab report "
        in said
    )


def test_a_row_explains_what_was_tried() -> None:
    rows = Expectations(rows=(ROW,))
    assert explained(done(fails=True), rows).result == "xfail"
    assert (
        explained(Done(cell=CELL, verdict=done(fails=True).verdict), rows).row is None
    )
