"""The steps of action.yml and of the workflow to call, run in order on loopback.

Each job has a folder and files of its own for GITHUB_OUTPUT, GITHUB_STEP_SUMMARY and GITHUB_PATH.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from github_runner import TOP, GitHubRunner

CALLED = TOP / ".github/workflows/interop.yml"
CELLS = "startup.hello/pure+pure/1x2+1x2 p2p.ring/pure+pure/1x2+1x2"
GOOD = "from mpi4py import MPI"
BAD = f"{GOOD}; raise SystemExit(3)"
pytestmark = pytest.mark.slow


def own_program(text: str) -> dict[str, object]:
    return {
        "arguments": "run --backend local --program mine.py --parties pure+pure",
        "prepare": f"echo '{text}' > mine.py",
        "shards": 1,
    }


def test_the_steps_of_the_action_leave_a_run_a_summary_and_outputs(
    tmp_path: Path,
) -> None:
    runner = GitHubRunner(tmp_path)
    ended = runner.action(
        "one", {"arguments": f"run --backend local {CELLS.split()[0]}", "name": "own"}
    )
    assert not ended.failed, ended.said
    assert ended.done == [
        "./.impi",
        "  actions/setup-python@v5",
        "  Install impilab",
        "  impilab",
        "  Keep the run and its pages",
    ]
    assert ended.outputs["code"] == "0"
    assert (runner.folder("1-one") / ended.outputs["folder"] / "index.html").exists()
    assert (runner.artifacts / "own/results.json").exists()
    assert "1 cells" in ended.summary


def test_a_selection_that_is_empty_fails_the_action(tmp_path: Path) -> None:
    runner = GitHubRunner(tmp_path)
    ended = runner.action("one", {"arguments": "run --backend local no.such"})
    assert ended.failed
    assert ended.outputs == {"folder": "", "code": "5"}
    assert "Keep the run and its pages" not in str(ended.done)


@pytest.mark.proof
def test_shards_of_the_called_workflow_become_one_run_and_a_site(
    tmp_path: Path,
) -> None:
    runner = GitHubRunner(tmp_path)
    jobs = runner.workflow(
        CALLED,
        {"arguments": f"run --backend local {CELLS}", "shards": 2, "site": True},
    )
    assert [*jobs] == ["plan", "shard", "matrix"]
    assert [one.failed for one in jobs["shard"]] == [False, False]
    [matrix] = jobs["matrix"]
    assert not matrix.failed, matrix.said
    assert matrix.outputs["code"] == "0"
    assert "2 cells" in matrix.summary
    results = json.loads((runner.artifacts / "interop/results.json").read_text())
    assert {cell["id"] for cell in results["cells"]} == set(CELLS.split())
    assert (runner.artifacts / "github-pages/badge.svg").exists()


@pytest.mark.proof
def test_the_called_workflow_fails_by_what_is_worse_than_the_default_branch(
    tmp_path: Path,
) -> None:
    runner = GitHubRunner(tmp_path)
    assert not runner.workflow(CALLED, own_program(GOOD))["matrix"][0].failed
    jobs = runner.workflow(CALLED, own_program(BAD))
    assert not jobs["shard"][0].failed, "the job that merges decides"
    [matrix] = jobs["matrix"]
    assert matrix.failed
    assert "::error title=worse%3A" in matrix.said
    assert "1 worse" in matrix.summary
    # The red cell is now what the branch has, so it is no longer worse.
    assert not runner.workflow(CALLED, own_program(BAD))["matrix"][0].failed
