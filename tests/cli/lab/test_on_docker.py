"""Bundles handed on, a program of one's own, and shards: on containers, as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
DEADLINE_S = 600  # the first run on a machine builds images
RING = "p2p.ring/pure+pure/1x1+1x1"
SSEND = "p2p.ssend/pure+mpich/1x1+1x1"
PROGRAM = """
from mpi4py import MPI
ranks = MPI.COMM_WORLD.allgather(MPI.COMM_WORLD.rank)
assert ranks == [0, 1], ranks
if not ranks[MPI.COMM_WORLD.rank]:
    open("answer.txt", "w").write("42\\n")
"""
pytestmark = [pytest.mark.proof, pytest.mark.docker]


def impilab(folder: Path, *argv: str, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "impi.cli.impilab", *argv],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == code, f"{argv}: {done.returncode}\n{done.stdout}"
    return done.stdout


def results(run: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((run / "results.json").read_text("utf-8"))
    return value


def test_a_bundle_is_repeated_elsewhere(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    impilab(here, "run", "--backend", "docker", RING)
    made = impilab(here, "bundle", RING, "--captures", "--to", str(there / "b.zip"))
    assert "names of this machine are replaced" in made
    told = impilab(there, "unbundle", "b.zip")
    [line] = [line for line in told.splitlines() if line.startswith("again")]
    words = line.split()
    impilab(there, *words[words.index("repro") :])
    [run] = (there / "runs").glob("bundle-*")
    assert [*(run / "cells").glob("*/*.pcap")]
    assert results(run / "repro/latest")["totals"] == {"pass": 1}


def test_a_program_of_ones_own_is_captured_and_repeated(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PROGRAM)
    argv = ["--program", "mine.py", "--parties", "pure+mpich", "--topology", "1x1+1x1"]
    impilab(tmp_path, "run", "--backend", "docker", *argv, "--output", "answer.txt")
    run = tmp_path / "runs/latest"
    assert results(run)["totals"] == {"pass": 1}
    (tmp_path / "mine.py").write_text("raise SystemExit('not what was run')\n")
    impilab(tmp_path, "repro", "program.mine/pure+mpich/1x1+1x1")
    assert results(run / "repro/latest")["totals"] == {"pass": 1}


def test_shards_are_one_run(tmp_path: Path) -> None:
    for shard in ("1/2", "2/2"):
        argv = ["--backend", "docker", "--shard", shard, "--runs", f"shards/{shard[0]}"]
        impilab(tmp_path, "run", *argv, RING, SSEND)
    impilab(tmp_path, "merge", "shards")
    run = tmp_path / "runs/latest"
    assert results(run)["totals"] == {"pass": 2}
    assert [*run.glob("cells/*/*.pcap")]
