"""The choice of old runs and cells that stay, and the safety of all other files."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path

import pytest
from made_up_run import record, written

from impi.lab.report.keeping.old_runs import Tidied, rule, tidy_runs

GREEN, BAD = "p2p.ring/pure+mpich/1x2+1x2", "p2p.long/pure+mpich/1x2+1x2"


def a_run(folder: Path, number: int) -> Path:
    run = folder / f"20270101T{number:06d}-abcd"
    records = [record(GREEN), record(BAD, "fail")]
    written(run, records)
    (run / "plan.json").write_text("{}")
    (run / "results.jsonl").write_text(
        "".join(json.dumps(each) + "\n" for each in records)
    )
    for each in records:
        (run / each["evidence"]["folder"] / "cell.json").write_text("{}")
        (run / each["evidence"]["folder"] / "evidence.json").write_text("x" * 1000)
    return run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number in range(6):
        a_run(tmp_path, number)
    (tmp_path / "latest").symlink_to("20270101T000005-abcd")
    return tmp_path


def evidence(runs: Path, cell: str) -> list[str]:
    hash_ = record(cell)["hash"]
    return sorted(
        path.parts[-4][13:15] for path in runs.glob(f"2*/cells/{hash_}/evidence.json")
    )


def test_the_newest_stay_whole_and_red_cells_longer(runs: Path) -> None:
    tidied = tidy_runs(runs, 2, 4)
    assert tidied.runs == ("20270101T000001-abcd", "20270101T000000-abcd")
    assert tidied.cells == 2
    assert tidied.octets > 2000
    assert evidence(runs, GREEN) == ["04", "05"]
    assert evidence(runs, BAD) == ["02", "03", "04", "05"]
    thinned = runs / "20270101T000002-abcd/cells" / record(GREEN)["hash"]
    assert sorted(path.name for path in thinned.iterdir()) == [
        "cell.json",
        "index.html",
    ]
    assert (runs / "20270101T000002-abcd/index.html").exists()
    assert tidy_runs(runs, 2, 4) == Tidied()


def test_what_is_in_use_stays(runs: Path) -> None:
    (runs / "20270101T000000-abcd/keep").touch()
    busy = os.open(runs / "20270101T000001-abcd", os.O_RDONLY)
    fcntl.flock(busy, fcntl.LOCK_EX)
    try:
        assert [name[13:15] for name in tidy_runs(runs, 1, 1).runs] == [
            "04",
            "03",
            "02",
        ]
    finally:
        os.close(busy)
    assert [name[13:15] for name in tidy_runs(runs, 1, 1).runs] == ["01"]


def test_what_is_no_run_stays(runs: Path) -> None:
    others = ["bundle-0123", "site", "20270101T000000-abcd.bak", "20270101T000009-abcd"]
    for name in others:
        (runs / name).mkdir()
        (runs / name / "file").touch()
    (runs / "20200101T000000-aaaa").symlink_to(runs / "site")
    tidy_runs(runs, 1, 1)
    assert all((runs / name / "file").exists() for name in others)
    assert (runs / "latest/plan.json").exists()


def test_the_newest_is_the_one_that_latest_names(runs: Path) -> None:
    (runs / "latest").unlink()
    (runs / "latest").symlink_to("20270101T000002-abcd")
    tidy_runs(runs, 1, 1)
    assert [path.name for path in runs.glob("2*")] == ["20270101T000002-abcd"]


def test_records_that_are_hostile_or_broken(runs: Path) -> None:
    outside = runs / "outside"
    outside.mkdir()
    (outside / "file").touch()
    lines = [
        "{",
        "3",
        '{"result": "pass", "hash": "../../outside"}',
        '{"result": "pass"}',
        '{"result": []}',
    ]
    (runs / "20270101T000000-abcd/results.jsonl").write_text("\n".join(lines))
    (runs / "20270101T000001-abcd/results.jsonl").unlink()
    tidy_runs(runs, 1, 50)
    assert (outside / "file").exists()
    assert evidence(runs, GREEN) == ["00", "01", "05"]


def test_without_a_number_and_without_runs_nothing_goes(
    runs: Path, tmp_path: Path
) -> None:
    assert tidy_runs(runs, 0) == tidy_runs(tmp_path / "none") == Tidied()
    assert len(list(runs.glob("2*"))) == 6


def test_it_is_said_in_words() -> None:
    assert Tidied().sentence == ""
    assert (
        Tidied(runs=("a", "b"), octets=412_000_000).sentence
        == "2 runs removed, 412.0 MB"
    )
    assert (
        Tidied(runs=("a",), cells=7).sentence
        == "1 runs and files of 7 green cells removed, 0.0 MB"
    )
    assert rule() == "the last 10 runs stay whole, red cells of the last 50"
    assert rule(60) == "the last 60 runs stay whole, red cells of the last 60"
