"""Results of a run that is not over, from its plan and the cells that ended."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from forge import FakeBackend

from impi.base.errors import UsageError
from impi.cli.impilab import main
from impi.lab.report.live.so_far import results_so_far, state_of
from impi.lab.report.pages.views import RunView

RING, ANY = "p2p.ring/mpich+openmpi/1x2+1x2", "p2p.any/mpich+openmpi/1x2+1x2"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A real run of two cells."""
    monkeypatch.chdir(tmp_path)
    assert main(["run", RING, ANY], choose=lambda _name: FakeBackend()) == 0
    return (tmp_path / "runs/latest").resolve()


def test_a_run_that_is_over_has_its_results(run: Path) -> None:
    assert results_so_far(run) == json.loads((run / "results.json").read_text())


def test_a_run_that_was_just_begun_or_goes_on(run: Path) -> None:
    whole = json.loads((run / "results.json").read_text())
    (run / "results.json").unlink()
    lines = (run / "results.jsonl").read_text().splitlines()
    for ended in (0, 1, 2):
        (run / "results.jsonl").write_text("".join(f"{x}\n" for x in lines[:ended]))
        found = results_so_far(run)
        view = RunView(found)
        assert not view.is_over
        assert sorted(cell.id for cell in view.cells) == [ANY, RING]
        assert [cell.result for cell in view.cells].count("pass") == ended
        assert {cell.reason for cell in view.cells[ended:]} <= {"not run yet"}
        for name in ("run", "argv", "backend", "seed", "builds", "started"):
            assert found[name] == whole[name]
    shutil.copytree(run, run.parent / "half")
    (run.parent / "half/results.jsonl").write_text(lines[0] + "\n" + lines[1][:30])
    half = RunView(results_so_far(run.parent / "half"))
    assert [cell.result for cell in half.cells] == ["pass", "skipped"]


def test_the_state_changes_with_results_alone(run: Path) -> None:
    before = state_of(run)
    (run / "report.md").write_text("x")
    assert state_of(run) == before
    (run / "results.json").unlink()
    assert state_of(run) not in ("", before)
    (run / "results.jsonl").unlink()
    assert state_of(run) == ""


def test_a_folder_that_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no run .*none"):
        results_so_far(tmp_path / "none")
    with pytest.raises(UsageError, match="it has no plan"):
        results_so_far(tmp_path)
