"""The program itself, as a user runs it: on loopback, and interrupted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DEADLINE_S = 90


def start(folder: Path, *argv: str, **more) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "impi.cli.impilab", *argv]
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)}
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def processes(folder: Path) -> set[str]:
    """Processes whose environment names the folder: all that a lab below it has started."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(folder).encode() in path.read_bytes():
                found.add(
                    f"{path.parent.name}: {(path.parent / 'cmdline').read_bytes()!r}"
                )
        except OSError:
            continue
    return found


@pytest.mark.slow
def test_a_run_on_loopback(tmp_path):
    process = start(tmp_path, "run", "--backend", "local", "p2p.ring/pure+pure/1x2+1x2")
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, err) == (0, "")
    assert "~ p2p.ring/pure+pure/1x2+1x2" in out
    assert json.loads((tmp_path / "runs/latest/results.json").read_text())[
        "totals"
    ] == {"self-reported": 1}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing(tmp_path, number):
    process = start(
        tmp_path,
        "run",
        "--backend",
        "local",
        "--parties",
        "pure+pure",
        start_new_session=True,
    )
    assert process.stdout is not None
    line = ""
    while "~" not in line:  # one cell is over, the next one is under way
        line = process.stdout.readline()
        assert line
    process.send_signal(number)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 2
    assert "Traceback" not in err
    value = json.loads((tmp_path / "runs/latest/results.json").read_text())
    assert value["exit"] == 2
    assert value["totals"]["skipped"] >= 5
    assert processes(tmp_path) == set()
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on(tmp_path):
    cases = ["p2p.ring", "p2p.sizes", "p2p.ssend", "p2p.any"]
    process = start(
        tmp_path,
        "run",
        "--backend",
        "local",
        "--parties",
        "pure+pure",
        *cases,
        "--jobs",
        "1",
    )
    assert process.stdout is not None
    assert process.stderr is not None
    while "~" not in process.stdout.readline():
        assert process.poll() is None
    process.kill()
    process.wait(DEADLINE_S)
    process.stdout.close()
    process.stderr.close()
    folder = (tmp_path / "runs/latest").resolve()
    assert not (folder / "results.json").exists()
    again = start(tmp_path, "run", "--resume")
    out, err = again.communicate(timeout=DEADLINE_S)
    assert (again.returncode, err) == (0, "")
    assert "4 cells, " in out
    assert "of them done before" in out
    assert (tmp_path / "runs/latest").resolve() == folder
    assert json.loads((folder / "results.json").read_text())["totals"] == {
        "self-reported": 4
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["run", "--backend", "local", "x.y"], 5),
        (["run", "--jobs"], 4),
        (["--version"], 0),
    ],
)
def test_exit_codes(tmp_path, argv, code):
    process = start(tmp_path, *argv)
    _, err = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == code
    assert err.count("\n") == (0 if code == 0 else 1)
    assert [p.name for p in tmp_path.iterdir()] == ["temporary"]


@pytest.mark.slow
def test_a_closed_pipe_is_no_failure(tmp_path):
    process = start(tmp_path, "plan", "--backend", "local")
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    err = process.stderr.read()
    process.stderr.close()
    assert (process.wait(DEADLINE_S), err) == (0, "")
