"""Shards of a run on several machines, and the one run that is made of them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from forge import FakeBackend, Job

from impi.cli.impilab import main
from impi.cli.lab.past_runs.merge import add_merge
from impi.lab.cases.own_program import own_case
from impi.lab.plan.matrix import cells_of_case, make_plan
from impi.lab.plan.shard import Shard
from impi.lab.report.history import read_run
from impi.lab.report.results import RunFolder

CELLS = "p2p.[ra]*/mpich+openmpi/1x2+1x2"
RING = "p2p.ring/mpich+openmpi/1x2+1x2"
pytestmark = pytest.mark.usefixtures("three_vendors")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shard(text: str, *more: str, backend: FakeBackend | None = None) -> int:
    index = text.partition("/")[0]
    argv = ["run", *(more or [CELLS]), "--shard", text, "--runs", f"artifacts/{index}"]
    return main(argv, choose=lambda _name: backend or FakeBackend())


def results(run: str = "runs/latest") -> dict[str, Any]:
    value: dict[str, Any] = json.loads(Path(run, "results.json").read_text("utf-8"))
    return value


def test_the_merged_run_is_as_one_run_of_all_cells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert add_merge.__module__ == "impi.cli.lab.past_runs.merge"
    for i in (1, 2):
        assert shard(f"{i}/2") == 0
    parts = [results(f"artifacts/{i}/latest") for i in (1, 2)]
    assert [part["shard"] for part in parts] == ["1/2", "2/2"]
    assert all(part["cells"] for part in parts)
    assert main(["merge", "artifacts"]) == 0
    assert "of 2 shards" in capsys.readouterr().out
    merged = results()
    assert (
        main(["run", CELLS, "--runs", "whole"], choose=lambda _name: FakeBackend()) == 0
    )
    assert {cell["id"] for cell in merged["cells"]} == {
        cell["id"] for cell in results("whole/latest")["cells"]
    }
    assert merged["totals"] == results("whole/latest")["totals"]
    assert "shard" not in merged and merged["argv"] == [
        "run",
        CELLS,
        "--runs",
        "artifacts/1",
    ]
    for cell in merged["cells"]:
        assert Path("runs/latest", cell["evidence"]["folder"], "evidence.json").exists()
        assert Path("runs/latest", cell["evidence"]["folder"], "index.html").exists()
    assert main(["repro", RING], choose=lambda _name: FakeBackend()) == 0


def test_a_red_cell_stays_red(capsys: pytest.CaptureFixture[str]) -> None:
    def tweak(job: Job) -> None:
        if job.name == "p2p.ring":
            job.wraps[0]["status"] = 1

    codes = [shard(f"{i}/2", backend=FakeBackend(tweak=tweak)) for i in (1, 2)]
    assert sorted(codes) == [0, 1]
    assert main(["merge", "artifacts/1", "artifacts/2"]) == 1
    assert "1 fail" in capsys.readouterr().out


def test_what_no_shard_has_run_is_not_green(capsys: pytest.CaptureFixture[str]) -> None:
    shard("1/2")
    assert main(["merge", "artifacts"]) == 3
    lost = [cell for cell in results()["cells"] if cell["result"] == "skipped"]
    assert lost and {cell["reason"] for cell in lost} == {
        "no results of shard 2/2 are here"
    }


def test_a_shard_that_was_killed_counts_with_what_it_has() -> None:
    for i in (1, 2):
        shard(f"{i}/2")
    folder = Path("artifacts/2/latest").resolve()
    lines = (folder / "results.jsonl").read_text("utf-8").splitlines(keepends=True)
    (folder / "results.jsonl").write_text("".join(lines[:-1]) + lines[-1][:30], "utf-8")
    (folder / "results.json").unlink()
    assert main(["merge", "artifacts"]) == 3
    [lost] = [cell for cell in results()["cells"] if cell["result"] == "skipped"]
    assert (lost["id"], lost["reason"]) == (
        json.loads(lines[-1])["id"],
        "its shard did not come to it",
    )


def test_an_archive_has_made_a_folder_of_the_link() -> None:
    for i in (1, 2):
        shard(f"{i}/2")
        link = Path(f"artifacts/{i}/latest")
        target = link.resolve()
        link.unlink()
        shutil.copytree(target, link)
    assert main(["merge", "artifacts"]) == 0


def test_shards_that_are_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    for i in (1, 2):
        shard(f"{i}/2")
    folder = Path("artifacts/2/latest").resolve()
    lines = (folder / "results.jsonl").read_text("utf-8").splitlines(keepends=True)
    (folder / "results.jsonl").write_text("".join(lines[:-1]), "utf-8")
    assert (
        main(
            ["run", "--resume", "--runs", "artifacts/2"],
            choose=lambda _name: FakeBackend(),
        )
        == 0
    )
    assert results("artifacts/2/latest")["shard"] == "2/2"
    assert main(["merge", "artifacts"]) == 0
    assert (
        main(["run", "--resume", "--shard", "1/2"], choose=lambda _name: FakeBackend())
        == 4
    )
    assert "--resume keeps the plan of its run" in capsys.readouterr().err


def test_own_programs_are_merged_although_the_file_is_gone(here: Path) -> None:
    (here / "mine.py").write_text("print('ü')\n", "utf-8")
    plan = make_plan(
        cells_of_case(own_case(Path("mine.py"), ["-n", "3"])), FakeBackend()
    )
    for i in (1, 2):
        runs = here / f"artifacts/{i}"
        RunFolder.create(
            runs, Shard(i, 2).of(plan), argv=["run"], backend="fake", seed=7
        ).close()
    (here / "mine.py").unlink()
    assert main(["merge", "artifacts"]) == 3  # nothing of them was run
    merged = read_run(Path("runs")).plan
    assert {cell.id for cell in merged.cells} == {cell.id for cell in plan.cells}
    assert merged.cells[0].case.params == {
        "name": "mine.py",
        "text": "print('ü')\n",
        "arguments": ["-n", "3"],
    }


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (["2/3", "p2p.[ras]*/mpich+openmpi/1x2+1x2"], "these are shards of 2 and of 3"),
        (["1/2"], "shard 1/2 is here twice"),
        (
            ["2/2", "p2p.*/mpich+openmpi/1x2+1x2"],
            "are runs of different plans: they cannot be merged",
        ),
    ],
)
def test_shards_that_do_not_belong_together(
    second: list[str], why: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shard("1/2")
    (here / "artifacts/1").rename(here / "first")
    shard(*second)
    assert main(["merge", "first", "artifacts"]) == 4
    assert why in capsys.readouterr().err


def test_what_is_no_shard(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", RING], choose=lambda _name: FakeBackend()) == 0
    (here / "empty").mkdir()
    for named, why in [
        ("runs", "is not a shard"),
        ("none", "there is no folder none"),
        ("empty", "has no run in it"),
    ]:
        assert main(["merge", named]) == 4
        assert why in capsys.readouterr().err
    assert (
        main(["run", RING, "--shard", "3/2"], choose=lambda _name: FakeBackend()) == 4
    )
    assert (
        main(["run", RING, "--shard", "1/2"], choose=lambda _name: FakeBackend()) == 5
    )
    assert "2 shards are more than the 1 cells" in capsys.readouterr().err
