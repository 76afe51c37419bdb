"""The lists of impilab ls: rows for people, lines for programs, JSON for both."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from made_up_run import record, written

from impi.cli.impilab import main
from impi.cli.lab.ls import add_ls, show_table
from impi.lab.cases import CASES, TAGS

Patch = pytest.MonkeyPatch


def listed(what: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert main(["ls", what, "--json"]) == 0
    value: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
    return value


def test_all_lists_are_json_too(
    tmp_path: Path, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert add_ls.__module__ == "impi.cli.lab.ls"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clusters").symlink_to(Path(__file__).parents[3] / "clusters")
    written(
        tmp_path / "runs/a",
        [record("p2p.ring/pure+mpich/1x2+1x2", "fail")],
        seconds=100,
    )
    assert [row["name"] for row in listed("cases", capsys)] == list(CASES)
    assert [row["name"] for row in listed("tags", capsys)] == list(TAGS)
    assert "@smoke" not in str(listed("tags", capsys))
    assert {row["name"]: row["kind"] for row in listed("vendors", capsys)}[
        "mpich"
    ] == "backed"
    assert "two-nodes" in [row["name"] for row in listed("topologies", capsys)]
    [run] = listed("runs", capsys)
    assert run == {
        "name": "a",
        "backend": "docker",
        "seconds": 100,
        "exit": 0,
        "totals": {"fail": 1},
    }


@pytest.mark.parametrize("what", ["cases", "vendors", "topologies", "tags"])
def test_a_row_is_a_line_for_programs(
    what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    count = len(listed(what, capsys))
    assert main(["ls", what]) == 0
    assert len(capsys.readouterr().out.splitlines()) == count


def test_nothing_is_no_line(
    tmp_path: Path, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["ls", "runs"]) == 0
    assert capsys.readouterr().out == ""
    assert listed("runs", capsys) == []


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_rows_fit_the_terminal(
    columns: int, monkeypatch: Patch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show_table(
        [
            ["p2p.ring", "a message around " + "and around " * 30],
            ["p2p.[x]", "text [bold]as it is[/bold]"],
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= columns
    assert lines[-1].rstrip() == "p2p.[x]   text [bold]as it is[/bold]"


def test_what_contradicts_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ls", "tags", "--clauses"]) == 4
    assert "--clauses lists cases, not tags" in capsys.readouterr().err
