"""``impilab clean --runs``, and what a run says of those that went. For labs: test_impilab."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from forge import FakeBackend

from impi.cli.impilab import main
from impi.cli.lab.past_runs import clean

RING = "p2p.ring/mpich+openmpi/1x2+1x2"


@pytest.fixture
def backend(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return FakeBackend()


def lab(backend, *argv: str) -> int:
    return main(argv, choose=lambda name: backend)


def test_the_rule_stands_in_the_help() -> None:
    parser = argparse.ArgumentParser()
    clean.add_clean(parser.add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args(["clean", "--help"])


def evidence() -> int:
    return len(list(Path("runs").glob("2*/cells/*/evidence.json")))


def test_a_run_keeps_the_last_ones_and_says_so(backend, capsys):
    for _ in range(3):
        assert lab(backend, "run", RING, "--keep-runs", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if line.startswith("runs: ")]
    assert line.startswith(
        "runs: the last 2 runs stay whole, red cells of the last 50; files of 1 green cells removed"
    )
    assert evidence() == 2
    assert lab(backend, "run", RING, "--keep-runs", "0") == 0
    assert "runs: " not in capsys.readouterr().out
    assert evidence() == 3
    assert lab(backend, "run", RING, "--keep-runs", "-1") == 4


def test_old_runs_go_by_hand(backend, capsys):
    for _ in range(3):
        assert lab(backend, "run", RING) == 0
    capsys.readouterr()
    assert lab(backend, "clean", "--runs") == 0
    assert (
        capsys.readouterr().out
        == "nothing removed: the last 10 runs stay whole, red cells of the last 50\n"
    )
    newest = Path("runs/latest").resolve()
    assert lab(backend, "clean", "--runs", "--all") == 0
    assert capsys.readouterr().out.count("removed run 2") == 2
    assert [path.resolve() for path in Path("runs").glob("2*")] == [newest]
    # A name with a mistake in it must not look as if nothing were left to remove.
    assert lab(backend, "clean", "--runs", "elsewhere") == 4
    Path("elsewhere").mkdir()
    assert lab(backend, "clean", "--runs", "elsewhere") == 0
    assert lab(backend, "clean", "--runs", "--owner", "x") == 4
    assert "--runs is about runs" in capsys.readouterr().err
