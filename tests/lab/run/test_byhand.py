"""The script beside the evidence of a cell does by hand what was done there."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from forge import FakeBackend

from impi.base.errors import LabError
from impi.cli.impilab import main
from impi.lab.backends import choose_backend

ROOT = Path(__file__).parents[3]
DEADLINE_S = 300


def script_of(folder: Path, *argv: str, choose=choose_backend) -> Path:
    """The script of the one cell that is run there."""
    code = main(["run", *argv, "--runs", str(folder / "runs")], choose=choose)
    assert code in (0, 1)
    (path,) = (folder / "runs/latest/cells").resolve().glob("*/commands.sh")
    assert os.access(path, os.X_OK)
    return path


def by_hand(
    path: Path, folder: Path, **environ: str
) -> subprocess.CompletedProcess[str]:
    temporary = folder / "t"
    temporary.mkdir(exist_ok=True)
    env = {**os.environ, "TMPDIR": str(temporary), **environ}
    done = subprocess.run(
        [str(path)],
        env=env,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert "KEEP" in environ or list(temporary.iterdir()) == []
    return done


def test_it_is_a_script_whatever_the_cell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = script_of(
        tmp_path,
        "startup.key/mpich+openmpi/1x2+1x2/auth=key",
        choose=lambda name: FakeBackend(),
    )
    subprocess.run(["sh", "-n", str(path)], check=True)
    text = path.read_text()
    assert "startup.key/mpich+openmpi/1x2+1x2/auth=key" in text.splitlines()[1]
    assert 'IMPI_AUTH_KEY="${KEY}"' in text
    assert "(key)" not in text
    assert (
        text.index("start server server")
        < text.index("start client0 c0n0")
        < text.index("start client1 c1n0")
    )


@pytest.mark.slow
def test_on_loopback(tmp_path):
    path = script_of(
        tmp_path, "--backend", "local", "startup.key/pure+pure/1x2+1x2/auth=key"
    )
    done = by_hand(path, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "client1: exit 0" in done.stdout


@pytest.mark.slow
def test_another_source_may_be_named(tmp_path):
    """And it is the cell: where a rank fails, it fails."""
    path = script_of(
        tmp_path, "--backend", "local", "startup.key/pure+pure/1x2+1x2/auth=key"
    )
    other = tmp_path / "other"
    shutil.copytree(
        ROOT / "impi", other / "impi", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(ROOT / "images", other / "images")  # the vendors' manifests
    program = other / "impi/lab/programs/startup_key.py"
    program.write_text(program.read_text() + "\nraise SystemExit(7)\n")
    text = path.read_text()
    # The interpreter is this one's, wherever it lies.
    path.write_text(text.replace('"${IMPI}"/.venv', str(ROOT / ".venv")))
    done = by_hand(path, tmp_path, IMPI=str(other))
    assert done.returncode != 0
    assert "client0: exit 0" not in done.stdout


@pytest.mark.slow
def test_interrupted_it_leaves_nothing(tmp_path):
    path = script_of(tmp_path, "--backend", "local", "startup.hello/pure+pure/1x1+1x1")
    temporary = tmp_path / "t"
    temporary.mkdir()
    text = path.read_text()
    path.write_text(text.replace("\nfinish\n", "\necho here\nsleep 600 &\nwait $!\n"))
    env = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(
        [str(path)], env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.terminate()
        assert process.wait(DEADLINE_S) == 130
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the sleep of this test
    deadline = time.monotonic() + DEADLINE_S
    while list(temporary.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize(
    "cell", ["p2p.ring/pure+pure/2x1+1x1", "startup.key/mpich+pure/1x2+1x1/auth=key"]
)
def test_in_containers(tmp_path, cell):
    try:
        backend = choose_backend("docker")
    except LabError as error:
        pytest.skip(f"this needs a container engine that answers: {error}")
    for program in ("docker", "ssh", "ssh-keygen"):
        if not any(
            Path(folder, program).exists() for folder in os.environ["PATH"].split(":")
        ):
            pytest.skip(
                f"{program} is not installed: the script is for people who have it"
            )
    path = script_of(tmp_path, "--backend", "docker", cell, choose=lambda name: backend)
    mine = f"impilab-by-hand-{secrets.token_hex(4)}"
    text = path.read_text()
    assert text.count("\nnet=impilab-by-hand-$$\n") == 1
    path.write_text(text.replace("net=impilab-by-hand-$$", f"net={mine}"))
    done = by_hand(path, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "client1: exit 0" in done.stdout
    names = [
        str(c.name)
        for c in backend._client.containers.list(all=True, ignore_removed=True)  # type: ignore[attr-defined]
    ]
    names += [str(n.name) for n in backend._client.networks.list()]  # type: ignore[attr-defined]
    assert not [name for name in names if name.startswith(mine)]


def test_one_command_for_all_is_the_only_one(tmp_path):
    path = script_of(
        tmp_path, "--backend", "local", "startup.hello/pure+pure/1x1+1x1/start=one"
    )
    text = path.read_text()
    assert (
        text.count("\nstart ") == 1
        and "-client" not in text
        and "\nwait_for_server\n" not in text
    )
    done = by_hand(path, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
