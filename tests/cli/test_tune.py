"""``impi tune`` as a user sees it: a real job, the table it writes, and its sentences."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from impi.cli.impi import main
from impi.cli.tune import _warn_if_crowded
from impi.protocol.decisions import ALGORITHMS, SPECIFICATION, Decisions

TUNED = str(Path(__file__).parent.parent / "jobs" / "programs" / "tuned.py")


def impi(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "impi.cli.impi", *arguments]
    environ = {
        **os.environ,
        "COLUMNS": "200",
        "IMPI_TUNING": "/nowhere",
        "IMPI_AUTH_NONE": "1",
    }
    return subprocess.run(
        argv, capture_output=True, text=True, env=environ, timeout=120, check=False
    )


@pytest.mark.slow
def test_measure_decide_and_use(tmp_path: Path, run_job: Callable[..., Any]) -> None:
    path = tmp_path / "tuning.json"
    done = impi("tune", "--layout", "pure:1,pure:2,pure", "--quick", "-o", str(path))
    assert done.returncode == 0, done.stderr
    assert "pLogP between hosts: L = " in done.stdout
    assert "3 clients: predicted against measured" in done.stdout
    table = Decisions.parse(path.read_text())
    assert {operation for operation, _ in table.rules} == set(ALGORITHMS)
    value = json.loads(path.read_text())
    tried = {(row["operation"], row["algorithm"]) for row in value["measured"]}
    assert tried == {
        (o, a)
        for o, several in ALGORITHMS.items()
        for a in several
        if a != SPECIFICATION
    }
    assert all(row["seconds"] >= 0 for row in value["measured"])
    assert [pair["pair"] for pair in value["pairs"]] == [[0, 1], [0, 2], [1, 2]]
    result = run_job(
        [TUNED, "tuned"], ["pure:1"] * 3, options={1: ["--tuning", str(path)]}
    )
    assert set(result.codes) == {0}, str(result)
    # The measurement behind it can be used again.
    again = tmp_path / "again.json"
    raw = tmp_path / "raw"
    raw.write_text(json.dumps(value | {"format": "impi measurement 1"}))
    assert main(["tune", "--from", str(raw), "-o", str(again)]) == 0
    assert Decisions.parse(again.read_text()) == table


@pytest.mark.slow
def test_a_job_that_fails_says_why(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("IMPI_PREFIX_MPICH", "/nowhere")
    # So long the others may still say why, too; here client 1 alone has a reason.
    monkeypatch.setattr("impi.tools.local_job._GRACE_S", 1.0)
    assert main(["tune", "--layout", "pure:1,mpich:1", "--quick"]) == 1
    last = capfd.readouterr().err.strip().splitlines()[-1]
    assert last.startswith(
        "impi: the measuring job failed; client 1 said: impirun: client 1: "
    )
    assert "/nowhere" in last


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--layout", ""], "--layout names no client; write such as pure:1,mpich:1"),
        (
            ["--layout", "pure:1"],
            "--layout pure:1 has 1 client, but tuning needs at least 2",
        ),
        (
            ["--layout", "pure:1,lamb:1"],
            "there is no vendor 'lamb'; the vendors are pure, mpich, openmpi",
        ),
        (
            ["--layout", "pure:1,lam:1"],
            "vendor lam has an impirun of its own: LAM/MPI speaks IMPI itself",
        ),
        (
            ["--layout", "pure:x,pure:1"],
            "'x' is not a number of procs; write such as pure:1",
        ),
        (["--layout", "pure:0,pure:1"], "'0' is not a number of procs"),
        (["--from", "/nowhere/x"], "/nowhere/x cannot be read: No such file"),
        (["--from", "/dev/null"], "/dev/null is not a measurement of impi tune"),
        (
            ["--layout", "pure,pure", "-o", "/nowhere/x"],
            "-o /nowhere/x cannot be written: No such file",
        ),
    ],
)
def test_what_is_asked_wrongly(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tune", *arguments]) == 4
    assert sentence in capsys.readouterr().err


@pytest.mark.parametrize(
    "change",
    [
        {"clients": "x"},
        {"pairs": 1},
        {"pairs": []},
        {"pairs": [{"parameters": {}}]},
        {"measured": [{"octets": 1}]},
    ],
)
def test_measurements_that_are_none(
    change: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    point = [[0, 1e-5]]
    parameters = {
        "latency": 1e-4,
        "send": point,
        "receive": point,
        "gap": point,
        "combine": 1e-9,
    }
    good = {
        "format": "impi measurement 1",
        "clients": 2,
        "pairs": [{"parameters": parameters}],
        "measured": [],
    }
    path = tmp_path / "raw"
    path.write_text(json.dumps(good))
    assert main(["tune", "--from", str(path)]) == 0
    path.write_text(json.dumps(good | change))
    assert main(["tune", "--from", str(path)]) == 4
    assert "Traceback" not in capsys.readouterr().err


def _measurement(path: Path, send: float, *measured: dict[str, Any]) -> list[str]:
    parameters = {
        "latency": 1e-4,
        "send": [[0, send]],
        "receive": [[0, 1e-6]],
        "gap": [[0, 1e-5]],
        "combine": 1e-9,
    }
    value = {
        "format": "impi measurement 1",
        "clients": 2,
        "pairs": [{"parameters": parameters}],
        "measured": measured,
    }
    path.write_text(json.dumps(value))
    return ["tune", "--from", str(path)]


def test_figures_that_contradict_the_model_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_measurement(tmp_path / "raw", 1e-5)) == 0
    assert capsys.readouterr().err == ""
    assert main(_measurement(tmp_path / "raw", 1.2e-4)) == 0
    assert (
        "o_s(0) = 120.0 us, but g(0) = 10.0 us, which pLogP rules out"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(("cores", "warned"), [(1, True), (2, False)])
def test_clients_that_share_cores_are_told(
    cores: int,
    warned: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cores)))
    _warn_if_crowded(2)
    assert (
        "there are more clients (2) than cores (1)" in capsys.readouterr().err
    ) == warned
