"""A run as its pages show it: counts, order, sentences, commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from made_up_run import made_up, record, written

from impi.lab.report.pages.views import CellView, RunView

ROW = {
    "row": 3,
    "result": "fail",
    "issue": "https://tracker.example/41",
    "until": "2027-03-01",
}


def run_of(folder: Path, *records: dict[str, Any], **more: Any) -> RunView:
    return RunView(
        json.loads(
            (written(folder, list(records), **more) / "results.json").read_text()
        )
    )


@pytest.fixture
def big(tmp_path: Path) -> RunView:
    return RunView(
        json.loads((made_up(tmp_path / "big", 300) / "results.json").read_text())
    )


def test_red_cells_come_first_and_all_are_counted(big: RunView) -> None:
    assert [cell.kind for cell in big.red] == [
        kind for kind in ("fail", "timeout", "flaky", "error", "xpass") for _ in "12"
    ]
    assert sum(big.kinds.values()) == len(big.cells) == 300
    assert big.kinds["self-reported"] == 2
    assert big.title == "10 red of 296 cells; 2 were not reached"
    assert "✓ passed" in big.legend
    assert "~ passed, but its packets were not captured" in big.legend


def test_the_matrix_has_each_cell_once(big: RunView) -> None:
    placed = [
        cell for _, cells in big.matrix.rows for _, cell in cells if cell is not None
    ]
    assert len(placed) == len({id(cell) for cell in placed}) == 300
    assert sum(count for _, count in big.matrix.groups) == len(big.matrix.columns)
    for _, cells in big.matrix.rows:
        for column, cell in cells:
            assert cell is None or (cell.topology, cell.parties) == (
                column.topology,
                column.parties,
            )
    first = [column.topology for column in big.matrix.columns if column.first]
    assert first == [topology for topology, _ in big.matrix.groups] == big.topologies
    assert big.vendors[0] == "pure"


def test_a_green_run_says_so(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", record("p2p.ring/pure+mpich/1x2+1x2"), seconds=7.25)
    assert run.title == "1 cells, none of them red"
    assert run.facts["took"] == "7.2 s"
    assert run.facts["machine"] == "a processor, 2 cores, load 0.5 when it began"
    assert run.pairs.rows == [["pure+mpich", "1/1 ✓"]]
    assert (run.left_out, run.expected) == ([], [])


def test_a_run_from_before_machines_were_written_down(tmp_path: Path) -> None:
    run = run_of(
        tmp_path / "r", record("p2p.ring/pure+mpich/1x2+1x2"), machine={}, commit=""
    )
    assert run.facts["machine"] == run.facts["commit"] == ""


def test_the_small_table_marks_the_worst(tmp_path: Path) -> None:
    run = run_of(
        tmp_path / "r",
        record("p2p.ring/pure+mpich/1x2+1x2"),
        record("p2p.all/pure+mpich/1x2+1x2", "fail"),
        record("p2p.ring/mpich+pure/2x2+2x2"),
        record("p2p.ring/pure+pure/2x2+2x2", "unsupported"),
    )
    assert run.pairs.columns == ["clients", "1x2+1x2", "2x2+2x2"]
    assert run.pairs.rows == [["pure+mpich", "1/2 ✗", ""], ["mpich+pure", "", "1/1 ✓"]]


def view(record: dict[str, Any]) -> CellView:
    run = {
        "run": "20270101T000000-aaaa",
        "backend": "local",
        "argv": ["run", "--program", "my file.py"],
        "software": {},
    }
    return CellView(record, run)


@pytest.mark.parametrize(
    ("result", "more", "sentence"),
    [
        ("pass", {}, ""),
        (
            "pass",
            {"self_reported": True, "unseen": ["beta"]},
            "self-reported: packets of beta were not captured",
        ),
        ("xpass", {"expected": ROW}, "it passed, but row 3 expects fail"),
        ("fail", {"reason": "end.status: wrong"}, "end.status: wrong"),
    ],
)
def test_the_sentence_on_top_says_why(
    result: str, more: dict[str, Any], sentence: str
) -> None:
    found = view(record("p2p.ring/pure+mpich/1x2+1x2", result, **more)).sentence
    assert found.startswith(sentence)
    assert bool(found) == bool(sentence)


def test_the_command_that_repeats_a_cell() -> None:
    known, own = (
        view(record("p2p.ring/pure+mpich/1x2+1x2")),
        view(record("program.mine/pure+mpich/1x2+1x2")),
    )
    assert (
        known.again
        == "impilab repro p2p.ring/pure+mpich/1x2+1x2 --run runs/20270101T000000-aaaa"
    )
    assert (
        own.again
        == "impilab repro program.mine/pure+mpich/1x2+1x2 --run runs/20270101T000000-aaaa"
    )
    where = {"again": {"impilab": ".venv/bin/impilab", "run": "my runs/a"}, "run": "a"}
    typed = CellView(record("p2p.ring/pure+mpich/1x2+1x2"), where).again
    assert (
        typed == ".venv/bin/impilab repro p2p.ring/pure+mpich/1x2+1x2 --run 'my runs/a'"
    )
    assert known.about
    assert own.about == ""


def test_items_that_are_not_fulfilled_are_told_apart() -> None:
    cell = view(record("p2p.ring/pure+mpich/1x2+1x2", "fail"))
    assert [item["name"] for item in cell.failed] == ["end.status"]
    assert cell.fulfilled == ["placement"]
