"""A cell handed on: what is in its bundle, what is not, and that it repeats elsewhere."""

from __future__ import annotations

import os
import shlex
import subprocess
import zipfile
from pathlib import Path

import pytest
from forge import FakeBackend, Job

from impi.cli.impilab import main
from impi.cli.lab.past_runs import hand_on
from impi.lab.report.history import read_run

RING = "p2p.ring/mpich+openmpi/1x2+1x2"
KEY = "startup.key/mpich+openmpi/1x2+1x2/auth=key"
WHO = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@b",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@b",
}


@pytest.fixture
def backend(tmp_path, monkeypatch):
    here = tmp_path / "zelda-home"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(
        "impi.lab.report.folder.sanitize.socket.gethostname", lambda: "zelda-laptop"
    )
    monkeypatch.setattr(
        "impi.lab.report.folder.sanitize._user", lambda: {"zelda": "USER"}
    )
    monkeypatch.setenv("MY_TOKEN", "hush-hush-hush")
    return FakeBackend(tweak=tells)


def tells(job: Job) -> None:
    """A command that says what nobody else has to know."""
    job.wraps[0]["status"] = 1
    job.clients[0] = job.clients[0].__class__(
        argv=(),
        code=1,
        stdout=b"",
        stderr=f"zelda@zelda-laptop {Path.cwd()} hush-hush-hush\n".encode(),
    )


def lab(backend, *argv: str) -> int:
    return main(argv, choose=lambda name: backend)


def contents(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_bundle_repeats_a_cell_on_another_machine(
    backend, tmp_path, monkeypatch, capsys
):
    assert (
        lab(
            backend,
            "run",
            "p2p.[ra]*/mpich+openmpi/1x2+1x2",
            "--timeout-scale",
            "3",
            "--seed",
            "5",
        )
        == 1
    )
    assert lab(backend, "bundle", "p2p.ring") == 0
    out = capsys.readouterr().out
    (file,) = Path().glob("impilab-p2p.ring-*.zip")
    assert f"anywhere else: impilab unbundle {file}" in out
    assert "captures are left out: --captures adds them" in out
    other = tmp_path / "other"
    other.mkdir()
    file = file.absolute()
    monkeypatch.chdir(other)
    assert lab(backend, "unbundle", str(file)) == 0
    out = capsys.readouterr().out
    assert f"cell {RING}, from impi" in out
    assert "there it was fail: " in out
    (line,) = [line for line in out.splitlines() if line.startswith("again")]
    words = shlex.split(line.removeprefix("again"))
    assert lab(backend, *words[1:]) == 1
    assert "bad: fail; in that run: fail" in capsys.readouterr().out
    (folder,) = Path("runs").glob("bundle-*")
    assert read_run(folder.parent, folder.name).head["seed"] == 5
    assert not Path("runs/latest").exists()
    # Its history came with it.
    backend.tweak = lambda job: None
    assert lab(backend, *words[1:], "--history") == 0


def test_names_of_the_machine_and_secrets_stay_here(backend, capsys):
    assert lab(backend, "run", RING) == 1
    assert lab(backend, "bundle", RING, "--to", "b.zip") == 0
    files = contents(Path("b.zip"))
    assert b"USER@HOST" in files["cell/client0.stderr"]
    for name, octets in files.items():
        for secret in (b"zelda", b"hush-hush-hush"):
            assert secret not in octets, name
    assert not [
        name for name in files if name.endswith((".pcap", "index.html", "names.json"))
    ]


def test_captures_are_there_if_they_are_asked_for(backend):
    assert lab(backend, "run", RING) == 1
    assert lab(backend, "bundle", RING, "--to", "b.zip", "--captures") == 0
    run = read_run(Path("runs"))
    for name, octets in contents(Path("b.zip")).items():
        if name.endswith(".pcap"):
            assert (
                run.path / "cells" / run.plan.cells[0].hash / name.removeprefix("cell/")
            ).read_bytes() == octets
    assert "cell/c0n0.pcap" in contents(Path("b.zip"))


def test_the_key_of_a_job_is_in_no_bundle(backend):
    assert lab(backend, "run", KEY) == 1
    assert lab(backend, "bundle", KEY, "--to", "b.zip") == 0
    assert b'"IMPI_AUTH_KEY": "(key)"' in contents(Path("b.zip"))["cell/commands.txt"]


def test_ones_own_program_is_in_the_bundle(backend, tmp_path, monkeypatch, capsys):
    Path("mine.py").write_text("print()\n")
    argv = (
        "--parties",
        "mpich+openmpi",
        "--args",
        f"{Path.cwd()}/mesh -n 3",
        "--exit-code",
        "1",
    )
    assert lab(backend, "run", "--program", "mine.py", *argv) == 1
    assert lab(backend, "bundle", "program.mine", "--to", str(tmp_path / "b.zip")) == 0
    assert "your program mine.py is in the file, unchanged" in capsys.readouterr().out
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    assert lab(backend, "unbundle", str(tmp_path / "b.zip")) == 0
    out = capsys.readouterr().out
    assert "read it, for it runs as you" in out
    (line,) = [line for line in out.splitlines() if line.startswith("again")]
    assert lab(backend, *shlex.split(line.removeprefix("again"))[1:]) == 1
    (folder,) = Path("runs").glob("bundle-*")
    own = read_run(folder.parent, folder.name).own
    assert own is not None
    assert own.own is not None
    assert (own.own.octets, own.own.arguments[0], own.own.conditions.exit_code) == (
        b"print()\n",
        "HERE/mesh",
        1,
    )


def test_a_program_with_a_secret_is_not_handed_on(backend, capsys):
    Path("mine.py").write_text("key = 'hush-hush-hush'\n")
    lab(backend, "run", "--program", "mine.py", "--parties", "mpich+openmpi")
    assert lab(backend, "bundle", "program.mine") == 4
    assert (
        "mine.py contains the value of MY_TOKEN: take it out" in capsys.readouterr().err
    )
    assert not list(Path().glob("*.zip"))


def test_what_cannot_be_bundled(backend, capsys):
    assert lab(backend, "bundle", "p2p.ring") == 4
    assert "no run yet" in capsys.readouterr().err
    assert lab(backend, "run", RING) == 1
    Path("b.zip").touch()
    for argv, said in (
        (["p2p.any"], "has no cell 'p2p.any'"),
        (["p2p.ring", "--to", "b.zip"], "b.zip exists already"),
    ):
        assert lab(backend, "bundle", *argv) == 4
        assert said in capsys.readouterr().err
    assert lab(backend, "bundle", "p2p.ring", "--to", "none/b.zip") == 3
    assert "cannot be written" in capsys.readouterr().err


# -- the first bad commit


def stand_in(folder: Path, does: str) -> None:
    """Write what stands for impilab of a checkout."""
    package = folder / "impi/cli"
    package.mkdir(parents=True, exist_ok=True)
    for each in (package, package.parent):
        (each / "__init__.py").touch()
    (package / "impilab.py").write_text(f"import sys; {does}\n")


@pytest.fixture
def checkout(tmp_path) -> Path:
    """A repository with four commits, of which the third one is bad."""
    folder = tmp_path / "checkout"
    folder.mkdir()

    def git(*words: str) -> None:
        environ = {**os.environ, **WHO, "GIT_CONFIG_GLOBAL": "/dev/null"}
        subprocess.run(
            ["git", "-C", str(folder), *words],
            env=environ,
            check=True,
            capture_output=True,
        )

    git("init", "-q")
    for number in range(4):
        stand_in(
            folder, f"print(sys.argv[1:]); sys.exit({int(number > 1)})  # {number}"
        )
        git("add", ".")
        git("commit", "-qm", f"number {number}")
    return folder


def test_bisect_names_the_commit_of_impi(backend, checkout, capsys):
    assert lab(backend, "run", RING) == 1
    capsys.readouterr()
    assert (
        lab(
            backend,
            "bisect",
            "p2p.ring",
            "--good",
            "HEAD~3",
            "--of",
            str(checkout),
            "--repeat",
            "2",
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "first bad commit: " in out
    assert "number 2\n" in out
    assert not (checkout / ".mpi").exists()


def test_bisect_builds_a_vendor(backend, checkout, capsys, monkeypatch, tmp_path):
    """Our own impilab repeats the cell with each build."""
    found = "open(sys.argv[-1].partition('mpich=')[2] + '/f').read()"
    stand_in(tmp_path, f"sys.exit('sys.exit(1)' in {found})")
    monkeypatch.setattr(hand_on, "_CHECKOUT", tmp_path)
    assert lab(backend, "run", RING) == 1
    build = "mkdir $PREFIX && cp impi/cli/impilab.py $PREFIX/f"
    argv = ("--good", "HEAD~3", "--of", f"mpich={checkout}", "--build", build)
    assert lab(backend, "bisect", "p2p.ring", *argv) == 0
    assert "number 2\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--good", "none"], "--good none: there is no such commit in"),
        (
            ["--good", "HEAD", "--of", "mpich=."],
            "a vendor has both: --of VENDOR=CHECKOUT and --build COMMAND",
        ),
        (["--good", "HEAD", "--build", "make"], "a vendor has both"),
        (
            ["--good", "HEAD", "--of", "nosuch=.", "--build", "make"],
            "there is no vendor 'nosuch'",
        ),
        (["--good", "HEAD", "--of", "lam=.", "--build", "make"], "has no lam"),
        (["--good", "HEAD", "--repeat", "0"], "--repeat 0"),
        (["--good", "HEAD", "--of", "/proc"], "is not a repository of git"),
        ([], "required: --good"),
    ],
)
def test_what_cannot_be_searched(backend, capsys, argv, said):
    assert lab(backend, "run", RING) == 1
    capsys.readouterr()
    assert lab(backend, "bisect", "p2p.ring", *argv) == 4
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
