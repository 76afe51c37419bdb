from __future__ import annotations

import datetime

import pytest

from impi.base.errors import UsageError
from impi.lab.judge.expectations import load
from impi.lab.judge.verdict import Verdict
from impi.lab.plan.cell import parse_cell
from impi.lab.report.upkeep import check_rows, check_run, update
from impi.lab.run.schedule import Attempt, Done

pytestmark = pytest.mark.usefixtures("three_vendors")

RING = "p2p.ring/mpich+openmpi/1x2+1x2"
ANY = "p2p.any/mpich+openmpi/1x2+1x2"
SIZES = "p2p.sizes/mpich+openmpi/1x2+1x2"
CHECKS = "end.checks: expected 4 checks of rank 3, but 2 were done"
TODAY = datetime.date(2026, 1, 1)
UNTIL = datetime.date(2027, 3, 1)
ISSUE = "https://tracker.example/77"
OLD = "https://tracker.example/41"


def row(
    cells: str, result: str = "fail", until: str = "2027-01-01", more: str = ""
) -> str:
    return f'[[expect]]\ncells = "{cells}"\nresult = "{result}"\nissue = "{OLD}"\nuntil = {until}\n{more}'


@pytest.fixture
def read(tmp_path):
    def read(text: str):
        path = tmp_path / "e.toml"
        path.write_text(text)
        return load(path)

    return read


def done(
    cell: str,
    outcome: str,
    phase: str = "case",
    reason: str = CHECKS,
    *,
    tried: bool = True,
) -> Done:
    verdict = (
        Verdict(outcome="pass")
        if outcome == "pass"
        else Verdict(outcome=outcome, phase=phase, reason=reason)
    )
    attempts = (Attempt(verdict=verdict, seconds=1.0),) if tried else ()
    return Done(cell=parse_cell(cell), verdict=verdict, attempts=attempts)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (row(RING), ""),
        (row(RING, until="2026-01-01"), ""),
        (
            row(RING, until="2025-12-31"),
            f"row 1 ({RING}) expired on 2025-12-31: cure the bug, or renew the row ({OLD})",
        ),
        (
            row("p2p.rong/mpich+openmpi"),
            "row 1 (p2p.rong/mpich+openmpi) names no cell: correct or remove it",
        ),
        (row("p2p.ring/*+openmpi/1x2+1x2", more="count = 3\n"), ""),
        (
            row("p2p.ring/*+openmpi/1x2+1x2", more="count = 2\n"),
            "names 3 cells, but its count is 2",
        ),
    ],
)
def test_what_is_wrong_with_a_row_by_itself(read, text, words):
    found = check_rows(read(text), TODAY)
    assert len(found) == bool(words)
    assert words in "".join(found)


def test_a_cell_of_the_run_is_a_cell(read):
    strange = "p2p.ring/mpich+pure+pure/1x1+1x1+1x1"
    rows = read(row("p2p.ring/mpich+*/1x1+1x1+1x1"))
    assert check_rows(rows, TODAY) != []
    assert check_rows(rows, TODAY, [done(strange, "fail")]) == []


@pytest.mark.parametrize(
    ("text", "dones", "stale"),
    [
        (row(RING), [done(RING, "fail")], False),
        (row(RING), [done(RING, "pass")], True),
        (row(RING), [done(RING, "timeout")], True),
        (row(RING), [], False),  # not in this run
        (row(RING), [done(RING, "error")], False),  # the lab's fault says nothing
        (row(RING), [done(RING, "fail", tried=False)], False),
        (row("p2p.*/mpich+openmpi"), [done(RING, "fail"), done(ANY, "pass")], False),
        (row(RING, "flaky"), [done(RING, "pass")], False),
        (row(RING, "sometimes") + 'reason = "."\n', [done(RING, "pass")], False),
        # It ends in one way or the other
        (row(RING) + row(RING, "timeout"), [done(RING, "fail")], False),
    ],
)
def test_stale_rows(read, text, dones, stale):
    found = check_run(read(text), dones)
    assert bool(found) == stale
    assert all("is stale: of 1 cells" in problem for problem in found)


def updated(read, text: str, *dones: Done, issue: str = ISSUE):
    found = update(text, read(text), list(dones), issue=issue, until=UNTIL)
    return found, read(found.text)


def test_a_file_that_is_right_stays_as_it_is(read):
    text = "# known bugs\n\n" + row(RING)
    found, _ = updated(read, text, done(RING, "fail"), done(ANY, "pass"))
    assert (found.text, found.changes) == (text, ())


def test_what_is_cured_goes_with_its_comment(read):
    text = (
        "# known bugs\n\n"
        + row(ANY)
        + "\n# the ring\n# is broken\n"
        + row(RING)
        + "\n# sizes\n"
        + row(SIZES)
    )
    found, rows = updated(read, text, done(RING, "pass"), done(ANY, "fail"))
    assert found.changes == (f"row 2 ({RING}) removed",)
    assert found.text == "# known bugs\n\n" + row(ANY) + "\n# sizes\n" + row(SIZES)
    assert [r.cells for r in rows.rows] == [(ANY,), (SIZES,)]


def test_a_row_is_narrowed_to_what_still_fails(read):
    text = (
        "# all of it\n"
        + row("p2p.[ars]*/mpich+openmpi/1x2+1x2", more='phase = "case"\ncount = 4\n')
        + "\n"
        + row(RING)
    )
    found, rows = updated(read, text, done(ANY, "pass"), done(RING, "fail"))
    first = rows.rows[0]
    # And what did not run
    assert set(first.cells) == {RING, SIZES, "p2p.ssend/mpich+openmpi/1x2+1x2"}
    assert (first.phase, first.issue, first.count) == ("case", OLD, None)
    assert found.text.startswith("# all of it\n[[expect]]")
    assert rows.rows[1].cells == (RING,)


def test_a_row_about_nothing_goes(read):
    found, rows = updated(read, row("p2p.rong/mpich+openmpi"))
    assert (rows.rows, found.changes) == (
        (),
        ("row 1 (p2p.rong/mpich+openmpi) removed",),
    )


def test_new_failures_get_rows_by_how_they_ended(read):
    other = done(
        SIZES,
        "timeout",
        reason="not over after 10 s; end.status: expected 0, but it did not end",
    )
    lab = done("coll.all/mpich+openmpi/1x2+1x2", "error")
    found, rows = updated(read, "", done(RING, "fail"), done(ANY, "fail"), other, lab)
    first, second = rows.rows
    assert (first.cells, first.result, first.phase, first.reason) == (
        (RING, ANY),
        "fail",
        "case",
        r"end\.checks:",
    )
    assert (second.cells, second.result, second.reason) == (
        (SIZES,),
        "timeout",
        r"end\.status:",
    )
    assert {(r.issue, r.until) for r in rows.rows} == {(ISSUE, UNTIL)}
    assert check_run(rows, [done(RING, "fail"), done(ANY, "fail"), other]) == []
    again, _ = updated(read, found.text, done(RING, "fail"), done(ANY, "fail"), other)
    assert again.changes == ()


def test_new_failures_need_an_issue(read):
    with pytest.raises(
        UsageError, match=r"1 cells failed without a row: .* --issue URL"
    ):
        updated(read, "", done(RING, "fail"), issue="")


def test_expired_rows_are_left_to_a_person(read):
    text = row(RING, until="2020-01-01")
    assert updated(read, text, done(RING, "fail"))[0].changes == ()


def test_rows_that_cannot_be_told_apart(read):
    text = f'expect = [{{cells = "{RING}", result = "fail", issue = "{OLD}", until = 2027-01-01}}]\n'
    with pytest.raises(UsageError, match="of its own"):
        updated(read, text, done(RING, "pass"))
