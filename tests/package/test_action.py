"""The script of the action: what fails a job, and what it leaves for the steps after it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forge import FakeBackend, Job

from impi.cli.impilab import main

SCRIPT = Path(__file__).parents[2] / "ci/action.sh"
RING = "p2p.ring/mpich+openmpi/1x2+1x2"
pytestmark = pytest.mark.slow


class Runner:
    """A machine of GitHub Actions, as far as the script can tell."""

    def __init__(self, home: Path) -> None:
        self.home = home
        python = home / "temp/impilab/bin/python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', "utf-8")
        python.chmod(0o755)
        (home / "ci").mkdir()
        (home / "ci/expectations.toml").touch()

    def shard(self, *, red: bool) -> None:
        """Leave a run of one cell, as its one shard, where artifacts are."""

        def tweak(job: Job) -> None:
            if red:
                job.wraps[0]["status"] = 1

        shutil.rmtree(self.home / "shards", ignore_errors=True)
        main(
            ["run", RING, "--shard", "1/1", "--runs", "shards"],
            choose=lambda _name: FakeBackend(tweak=tweak),
        )

    def run(self, fails: str, arguments: str = "merge shards") -> int:
        shutil.rmtree(self.home / "runs", ignore_errors=True)
        for name in ("output", "summary"):
            (self.home / name).write_text("", "utf-8")
        own = {
            "RUNNER_TEMP": f"{self.home}/temp",
            "GITHUB_OUTPUT": f"{self.home}/output",
            "GITHUB_STEP_SUMMARY": f"{self.home}/summary",
            "ARGUMENTS": arguments,
            "FAILS": fails,
        }
        argv, environ = ["sh", str(SCRIPT), "run"], os.environ | own
        done = subprocess.run(
            argv,
            env=environ,
            cwd=self.home,
            capture_output=True,
            timeout=60,
            check=False,
        )
        self.said = done.stdout.decode() + done.stderr.decode()
        return done.returncode

    def text(self, name: str) -> str:
        return (self.home / name).read_text("utf-8")


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.chdir(tmp_path)
    return Runner(tmp_path)


def test_a_red_cell_fails_the_job_or_leaves_it_to_a_later_one(runner: Runner) -> None:
    runner.shard(red=True)
    assert runner.run("red") == 1
    assert f"::error title={RING}::" in runner.said
    assert runner.text("summary").startswith("## ❌ 1 red of 1 cells")
    folder, code = runner.text("output").split()
    assert (runner.home / folder.removeprefix("folder=") / "index.html").exists()
    assert code == "code=1"
    assert runner.run("later") == 0
    assert runner.run("never") == 4


@pytest.mark.proof
def test_only_what_is_worse_fails_the_job(runner: Runner) -> None:
    runner.shard(red=True)
    assert runner.run("worse") == 1  # nothing to compare it with
    assert runner.run("worse") == 0
    runner.shard(red=False)
    assert runner.run("worse") == 0
    runner.shard(red=True)
    assert runner.run("worse") == 1
    assert "::error title=worse%3A" in runner.said
    assert "1 worse" in runner.text("summary")


def test_a_run_that_there_is_not_is_no_green_one(runner: Runner) -> None:
    runner.shard(red=False)
    assert runner.run("later", "merge none") == 4
    assert runner.text("output") == "folder=\ncode=4\n"
    assert runner.run("worse", "merge 'shards") not in (0, 2)
    assert runner.run("worse", "run --shard $(touch evil)/1 ; touch evil") == 4
    assert not (runner.home / "evil").exists()
