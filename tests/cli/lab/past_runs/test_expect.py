"""Runs held against ci/expectations.toml, and ``impilab expect``."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from forge import FakeBackend, Job

from impi.cli.impilab import main

P2P = "p2p.[ras]*/mpich+openmpi/1x2+1x2"
pytestmark = pytest.mark.usefixtures("three_vendors")

RING = "p2p.ring/mpich+openmpi/1x2+1x2"
ANY = "p2p.any/mpich+openmpi/1x2+1x2"
ISSUE = "https://tracker.example/41"
FILE = Path("ci/expectations.toml")


@pytest.fixture
def backend(tmp_path, monkeypatch):
    (tmp_path / "ci").mkdir()
    monkeypatch.chdir(tmp_path)
    return FakeBackend(tweak=broken)


def broken(job: Job) -> None:
    if job.name == "p2p.ring":
        job.wraps[0]["status"] = 1


def fine(job: Job) -> None:
    pass


def lab(backend, *argv: str) -> int:
    return main(argv, choose=lambda name: backend)


def row(
    cells: str = RING, result: str = "fail", until: str = "2999-01-01", more: str = ""
) -> str:
    return f'[[expect]]\ncells = "{cells}"\nresult = "{result}"\nissue = "{ISSUE}"\nuntil = {until}\n{more}\n'


def results() -> dict:
    return json.loads(Path("runs/latest/results.json").read_text())


def result_of(cell: str) -> dict:
    return next(c for c in results()["cells"] if c["id"] == cell)


def test_what_is_expected_is_totalled_apart(backend, capsys):
    FILE.write_text(row(more='phase = "finalize"\nreason = "end.status"'))
    assert lab(backend, "run", P2P) == 0
    value = results()
    assert value["totals"] == {"pass": 3, "xfail": 1}
    assert value["expectations"] == []
    cell = result_of(RING)
    assert (cell["outcome"], cell["result"]) == ("fail", "xfail")
    assert cell["expected"] == {
        "row": 1,
        "result": "fail",
        "issue": ISSUE,
        "until": "2999-01-01",
    }
    root = ElementTree.parse("runs/latest/junit.xml").getroot()
    assert [root.get(k) for k in ("tests", "failures", "errors", "skipped")] == [
        "4",
        "0",
        "0",
        "1",
    ]
    (skipped,) = root.iter("skipped")
    assert skipped.get("type") == "xfail"
    assert ISSUE in skipped.get("message", "")
    out = capsys.readouterr().out
    assert f"x {RING}" in out
    assert "FAIL " not in out
    assert "3 pass, 1 xfail" in out
    assert "3/4 x" in out


def test_another_file(backend):
    Path("mine.toml").write_text(row())
    assert lab(backend, "run", RING) == 1
    assert lab(backend, "run", RING, "--expect", "mine.toml") == 0


@pytest.mark.parametrize(
    "text",
    [
        row(result="timeout"),
        row(result="flaky"),
        row(more='phase = "fini"'),
        row(more='reason = "no such words"'),
        row(cells=ANY),
    ],
)
def test_what_is_expected_otherwise_is_a_failure(backend, text):
    FILE.write_text(text)
    assert lab(backend, "run", P2P) == 1
    assert result_of(RING)["result"] == "fail"


def test_fail_covers_neither_a_timeout_nor_an_error(backend):
    FILE.write_text(row())
    backend.broken_open = "no subnet is free"
    assert lab(backend, "run", RING) == 3
    assert results()["totals"] == {"error": 1}
    backend.broken_open = ""
    backend.tweak = lambda job: job.hangs.update({"client 0", "client 1", "server"})
    assert lab(backend, "run", RING, "--timeout-scale", "0.01") == 1
    assert results()["totals"] == {"timeout": 1}


def test_what_was_not_tried_is_not_expected(backend):
    backend.tweak = lambda job: job.hangs.update({"client 0", "client 1", "server"})
    FILE.write_text(row(cells=P2P) + row(cells=RING, result="timeout"))
    assert (
        lab(
            backend,
            "run",
            P2P,
            "coll.*/mpich+openmpi/1x2+1x2",
            "--timeout-scale",
            "0.01",
        )
        == 1
    )
    broken = [c for c in results()["cells"] if c["reason"].startswith("pair broken")]
    assert broken
    assert {c["result"] for c in broken} == {"skipped"}


def test_a_pass_that_was_not_expected(backend, capsys):
    FILE.write_text(row() + row(cells=ANY))
    backend.tweak = fine
    assert lab(backend, "run", P2P) == 6
    assert results()["totals"] == {"pass": 2, "xpass": 2}
    assert len(results()["expectations"]) == 2
    failures = list(
        ElementTree.parse("runs/latest/junit.xml").getroot().iter("failure")
    )
    assert [f.get("type") for f in failures] == ["xpass", "xpass", "stale"]
    out = capsys.readouterr().out
    assert f"X {RING}" in out
    assert f"expectations: row 1 ({RING}) is stale: of 1 cells 1 passed" in out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (row(until="2020-01-01"), "expired on 2020-01-01"),
        (
            row() + row(cells="p2p.rong/mpich+openmpi"),
            "row 2 (p2p.rong/mpich+openmpi) names no cell",
        ),
        (row(more="count = 7"), "its count is 7"),
        (row() + row(cells=f"{ANY}"), "row 2"),
    ],
)
def test_rows_that_are_not_true(backend, capsys, text, words):
    FILE.write_text(text)
    assert lab(backend, "run", P2P) == 6
    assert words in "".join(results()["expectations"])
    assert words in capsys.readouterr().out


def test_rows_about_other_cells_are_not_asked(backend):
    FILE.write_text(row() + row(cells="coll.*/*+openmpi/**"))
    assert lab(backend, "run", P2P) == 0


def test_failures_outrank_stale_rows(backend):
    FILE.write_text(row(cells=ANY))
    assert lab(backend, "run", P2P) == 1


def test_flaky_that_is_expected(backend):
    seen: list[str] = []

    def once(job: Job) -> None:
        seen.append(job.nonce)
        job.wraps[0]["status"] = int(len(seen) == 1)

    backend.tweak = once
    FILE.write_text(row(result="flaky"))
    assert lab(backend, "run", RING, "--retries", "1") == 0
    assert results()["totals"] == {"xfail": 1}
    assert lab(backend, "run", RING, "--retries", "1") == 0
    assert results()["totals"] == {"pass": 1}


def test_what_is_expected_is_not_retried(backend):
    FILE.write_text(row())
    assert lab(backend, "run", RING, "--retries", "3") == 0
    assert len(result_of(RING)["attempts"]) == 1


def test_what_is_expected_is_not_run_again_as_failed(backend, capsys):
    FILE.write_text(row())
    assert lab(backend, "run", P2P) == 0
    assert lab(backend, "run", "--failed") == 5


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_a_bad_file_stops_before_anything(backend, capsys, verb):
    FILE.write_text(row() + row(result="error"))
    assert lab(backend, verb, P2P) == 4
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert (
        "ci/expectations.toml, row 2: result = 'error' is unknown; write one of fail, timeout, red, flaky"
        in captured.err
    )
    assert not Path("runs").exists()


def test_a_plan_shows_what_is_expected(backend, capsys):
    FILE.write_text(row())
    assert lab(backend, "plan", P2P) == 0
    (line,) = [
        line for line in capsys.readouterr().out.splitlines() if "expected" in line
    ]
    assert RING in line
    assert f"fail expected: {ISSUE}" in line


# -- the verb


def test_show(backend, capsys):
    FILE.write_text(
        row() + row(cells="p2p.[ars]*/*+openmpi/1x2+1x2", more='phase = "case"')
    )
    assert lab(backend, "expect", "show") == 0
    assert (
        "names 1 cells of --tier full; in the run: none of them"
        in capsys.readouterr().out
    )
    assert lab(backend, "run", P2P) == 6
    capsys.readouterr()
    assert lab(backend, "expect", "show") == 0
    out = capsys.readouterr().out
    assert "in the run: 1 xfail\n" in out
    assert "names 12 cells of --tier full; in the run: " in out
    assert "3 xpass" in out
    assert "ci/expectations.toml: 2 rows" in out


def test_lint(backend, capsys):
    FILE.write_text(row())
    assert lab(backend, "expect", "lint") == 0
    assert "1 rows, 0 problems" in capsys.readouterr().out
    FILE.write_text(row(until="2020-01-01"))
    assert lab(backend, "expect", "lint") == 6
    assert "expired" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["lint"], "ci/expectations.toml cannot be read"),
        (["show", "--expect", "x.toml"], "x.toml cannot be read"),
        (["update"], "there is no run yet"),
        (
            ["update", "--from", "20260101T000000-aaaa"],
            "there is no run 20260101T000000-aaaa",
        ),
        (["update", "--issue", "later"], "issue = 'later' is not a link"),
        (["update", "--until", "soon"], "--until soon: write a date"),
        (["update", "--until", "2020-01-01"], "is over already"),
        (["forget"], "invalid choice"),
    ],
)
def test_bad_options(backend, capsys, argv, words):
    assert lab(backend, "expect", *argv) == 4
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert words in captured.err


def test_update_makes_the_next_run_as_expected(backend, capsys):
    assert lab(backend, "run", P2P) == 1
    assert lab(backend, "expect", "update") == 4
    assert "--issue URL" in capsys.readouterr().err
    assert not FILE.exists()
    assert (
        lab(backend, "expect", "update", "--issue", ISSUE, "--until", "2999-12-31") == 0
    )
    assert "row added for 1 cells: fail" in capsys.readouterr().out
    assert lab(backend, "run", P2P) == 0
    before = FILE.read_text()
    assert lab(backend, "expect", "update") == 0
    assert FILE.read_text() == before
    backend.tweak = fine
    assert lab(backend, "run", P2P) == 6
    assert lab(backend, "expect", "update") == 0
    assert "[[expect]]" not in FILE.read_text()
    assert lab(backend, "run", P2P) == 0


def test_update_leaves_no_other_file(backend):
    assert lab(backend, "run", P2P) == 1
    assert lab(backend, "expect", "update", "--issue", ISSUE) == 0
    assert [p.name for p in FILE.parent.iterdir()] == [FILE.name]


def test_a_file_that_cannot_be_written(backend, capsys):
    assert lab(backend, "run", P2P) == 1
    assert (
        lab(backend, "expect", "update", "--issue", ISSUE, "--expect", "none/e.toml")
        == 3
    )
    assert (
        "expectations none/e.toml cannot be written: No such file or directory"
        in capsys.readouterr().err
    )


def test_the_projects_own_file_is_right(capsys, monkeypatch):
    monkeypatch.undo()  # its rows are of all vendors
    monkeypatch.chdir(Path(__file__).parents[4])
    assert lab(FakeBackend(), "expect", "lint") == 0
