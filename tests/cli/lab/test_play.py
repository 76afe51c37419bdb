"""Labs to play with, and cleaning, from the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from forge import FakeBackend

from impi.base.errors import LabError
from impi.cli.impilab import main
from impi.lab.backends import choose_backend
from impi.lab.backends.lifecycle.cleanup import Choice, clean
from impi.lab.nodes.interface import LabSeen
from impi.lab.nodes.saved import list_labs

ROOT = Path(__file__).parents[3]
DEADLINE_S = 120


@pytest.fixture
def backend(tmp_path, monkeypatch):
    (tmp_path / "clusters").symlink_to(ROOT / "clusters")
    monkeypatch.chdir(tmp_path)
    return FakeBackend()


def lab(backend, *argv: str) -> int:
    return main(argv, choose=lambda name: backend)


# -- up and down


def test_a_lab_is_put_up_and_taken_down(backend, capsys):
    assert lab(backend, "up", "1x2+1x2", "--parties", "mpich+openmpi") == 0
    out = capsys.readouterr().out
    assert "lab lab: mpich+openmpi on 1x2+1x2" in out
    assert "impilab exec server -- impirun -server 2" in out
    assert (
        "impilab exec c1n0 -- impirun -client 1 HOST:PORT -np 2 --vendor openmpi" in out
    )
    assert backend.prepared == ["mpich", "openmpi"]
    assert backend.log == ["open", "hold", "close"]
    (saved,) = list_labs()
    assert saved.access.environment["c0n0"]["IMPI_AUTH_NONE"] == "1"
    assert lab(backend, "down") == 0
    assert "lab lab is gone" in capsys.readouterr().out
    assert backend.log[-1] == "remove"
    assert list_labs() == []


def test_nothing_is_prepared_for_a_lab_that_cannot_be(backend, capsys):
    backend.unsupported["2x2+1x4"] = "one machine"
    assert lab(backend, "up", "2x2+1x4") == 4
    assert capsys.readouterr().err == "impilab: topology 2x2+1x4: one machine\n"
    assert (backend.prepared, backend.log) == ([], [])


def test_parties_come_from_the_topologys_file_or_one_after_the_other(backend):
    assert lab(backend, "up", "three-vendors") == 0
    assert lab(backend, "up", "1x1+1x1+1x1+1x1", "--name", "four") == 0
    assert [saved.access.vendors for saved in list_labs()] == [
        ("pure", "mpich", "openmpi", "pure"),
        ("pure", "mpich", "openmpi"),
    ]
    assert lab(backend, "down", "--all") == 0
    assert list_labs() == []


def test_a_second_lab_gets_another_name(backend, capsys):
    assert lab(backend, "up", "1x1") == 0
    assert lab(backend, "up", "1x1") == 0
    assert [saved.name for saved in list_labs()] == ["lab", "lab-2"]
    capsys.readouterr()
    assert lab(backend, "up", "1x1", "--name", "lab") == 4
    assert "'impilab down lab' removes it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "code", "complaint"),
    [
        (["up", "2y2"], 4, "2y2"),
        (["up", "1x1", "--parties", "pure+pure"], 4, "has 1 clients"),
        (["up", "1x1", "--parties", "lamb"], 4, "no vendor 'lamb'"),
        (["up", "1x1", "--name", "A b"], 4, "--name 'A b'"),
        (["up", "1x1", "--ttl", "soon"], 4, "--ttl soon"),
        (["up", "1x1", "--replace", "mpich"], 4, "--replace mpich"),
        (["up"], 4, "TOPOLOGY"),
        (["down"], 4, "no lab"),
        (["down", "none"], 4, "no lab 'none'"),
        (["down", "x", "--all"], 4, "contradict"),
        (["ssh", "c0n0"], 4, "no lab"),
        (["exec", "c0n0", "--", "true"], 4, "no lab"),
        (["exec", "c0n0"], 4, "exec needs a command"),
        (["logs"], 4, "no lab"),
        (["clean", "--older-than", "2"], 4, "--older-than 2"),
        (["clean", "--label", "colour=red"], 4, "--label colour=red"),
        (["clean", "--label", "run="], 4, "--label run="),
    ],
)
def test_a_mistake_is_one_sentence_and_leaves_nothing(
    backend, capsys, argv, code, complaint
):
    assert lab(backend, *argv) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert complaint in captured.err
    assert backend.log == []
    assert not Path(".impilab").exists()


def test_a_lab_that_cannot_be_held_is_closed(backend, monkeypatch, capsys):
    def broken(self) -> None:
        raise LabError("the reaper does not answer")

    monkeypatch.setattr("forge.FakeLab.hold", broken)
    assert lab(backend, "up", "1x1") == 3
    assert backend.open_labs == 0


# -- status, logs, clean


def test_status_shows_every_lab_of_the_machine(backend, capsys):
    labels = {
        "parties": "pure+pure",
        "topology": "1x1+1x1",
        "user": "alice",
        "expires": "1",
    }
    backend.seen = [
        LabSeen(
            lab="x-1",
            labels=labels,
            parts=("a", "b"),
            state="left over",
            age_s=7300,
            left_s=-1,
        )
    ]
    assert lab(backend, "status") == 0
    out = capsys.readouterr().out
    assert re.search(
        r"x-1 +left over +pure\+pure +1x1\+1x1 +alice +2 h 1 min +over +2\n1 lab\n", out
    )
    assert lab(backend, "status", "--json") == 0
    (value,) = json.loads(capsys.readouterr().out)["rows"]
    assert (value["lab"], value["backend"], value["labels"]["user"]) == (
        "x-1",
        "fake",
        "alice",
    )


def test_status_names_what_is_gone(backend, capsys):
    assert lab(backend, "up", "1x1") == 0
    backend.held.clear()
    assert lab(backend, "status") == 0
    assert "lab lab is gone; 'impilab down lab' forgets it" in capsys.readouterr().out


def test_logs(backend, capsys):
    assert lab(backend, "up", "1x1") == 0
    capsys.readouterr()
    assert lab(backend, "logs", "c0n0") == 0
    assert capsys.readouterr().out.startswith("c0n0 of lab-1 says")
    assert lab(backend, "logs") == 0
    assert "-- server\n" in capsys.readouterr().out
    assert lab(backend, "logs", "c4n0") == 4


def test_a_lab_whose_time_is_over_is_told(backend, capsys):
    assert lab(backend, "up", "1x1") == 0
    path = list_labs()[0].folder / "lab.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "expires": 5.0}))
    assert lab(backend, "ssh", "c0n0") == 4
    assert "lab lab came to the end of its time" in capsys.readouterr().err


def test_clean_is_narrowed(backend):
    meant = {"run": "r1", "name": "n", "user": "alice"}
    others = [{**meant, "run": "r2"}, {**meant, "name": ""}, {**meant, "user": "bob"}]

    def left_over(
        name: str,
        labels: dict[str, str],
        age_s: float = 6000.0,
        state: str = "left over",
    ) -> LabSeen:
        return LabSeen(
            lab=name, labels=labels, parts=(), state=state, age_s=age_s, left_s=-1.0
        )

    spared = [left_over(f"other-{i}", labels) for i, labels in enumerate(others)]
    spared += [
        left_over("young", meant, 5000.0),
        left_over("live", meant, state="running"),
    ]
    backend.seen = [*spared, left_over("meant", meant)]
    argv = [
        "--label",
        "run=r1",
        "--label",
        "name",
        "--older-than",
        "90m",
        "--owner",
        "alice",
    ]
    assert lab(backend, "clean", *argv) == 0
    assert backend.seen == spared
    assert lab(backend, "clean", "--all") == 0
    assert backend.seen == []


@pytest.mark.parametrize("label", ["colour=red", "run=", "=x"])
def test_labels_that_no_lab_has(backend, capsys, label):
    assert lab(backend, "clean", "--label", label) == 4
    assert (
        f"--label {label}: write NAME or NAME=VALUE, with a name of run, lab, name"
        in capsys.readouterr().err
    )


# -- for real


def impilab(
    folder: Path, *argv: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    temporary = folder / "t"
    temporary.mkdir(exist_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "impi.cli.impilab", *argv],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TMPDIR": str(temporary),
            "SHELL": "/bin/sh",
        },
        input=stdin,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


@pytest.mark.slow
def test_on_loopback(tmp_path):
    done = impilab(
        tmp_path,
        "up",
        "1x2+1x1",
        "--parties",
        "pure+pure",
        "--backend",
        "local",
        "--name",
        "play",
    )
    try:
        assert (done.returncode, done.stderr) == (0, "")
        done = impilab(tmp_path, "status", "--backend", "local")
        assert re.search(
            r"play +impilab-\d+-\S+ +kept +pure\+pure +1x2\+1x1", done.stdout
        )
        done = impilab(
            tmp_path, "exec", "c1n0", "--", "sh", "-c", "pwd; impirun --version; exit 5"
        )
        assert done.returncode == 5
        assert "/c1n0\nimpirun" in done.stdout
        done = impilab(tmp_path, "ssh", "c0n0", stdin="pwd\n")
        assert done.stdout.endswith("/c0n0\n")
        assert impilab(tmp_path, "exec", "all", "--", "pwd").stdout.count("\n") == 6
        assert impilab(tmp_path, "clean", "--backend", "local").stdout == "0 removed\n"
        assert (
            impilab(
                tmp_path, "clean", "--backend", "local", "--owner", "nobody", "--all"
            ).stdout
            == "0 removed\n"
        )
    finally:
        done = impilab(tmp_path, "down")
    assert "lab play is gone" in done.stdout
    assert list((tmp_path / "t").iterdir()) == []
    assert not (tmp_path / ".impilab").exists()


@pytest.mark.slow
@pytest.mark.docker
@pytest.mark.parametrize("more", [[], ["--publish"]])
def test_in_containers(tmp_path, more):
    try:
        engine = choose_backend("docker")
    except LabError as error:
        pytest.skip(f"this needs a container engine that answers: {error}")
    engine.prepare(["pure"])
    done = impilab(
        tmp_path,
        "up",
        "1x2+1x1",
        "--parties",
        "pure+pure",
        "--backend",
        "docker",
        *more,
    )
    (name,) = [
        json.loads(path.read_text())["lab"]
        for path in tmp_path.glob(".impilab/*/lab.json")
    ] or [done.stderr]
    try:
        assert (done.returncode, done.stderr) == (0, "")
        config = (tmp_path / ".impilab/lab/ssh_config").read_text()
        assert ("HostName 127.0.0.1\n" in config) == bool(more)
        plain = ["ssh", "-F", ".impilab/lab/ssh_config", "c1n0"]
        done = subprocess.run(
            [*plain, "hostname"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert (done.stdout, done.stderr) == ("c1n0\n", "")
        # Whoever logs in has impirun.
        login = [*plain, "bash", "-l"]
        done = subprocess.run(
            login,
            input="impirun --version",
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.stdout.startswith("impirun ")
        assert job(tmp_path) == ["rank 0 of 3", "rank 1 of 3", "rank 2 of 3"]
        assert "Accepted publickey for mpi" in impilab(tmp_path, "logs", "c1n0").stdout
        assert (
            impilab(tmp_path, "exec", "c0n0", "--", "sh", "-c", "exit 5").returncode
            == 5
        )
        assert [seen.state for seen in engine.inventory.find() if seen.lab == name] == [
            "kept"
        ]
        assert clean(engine.inventory, Choice(labels={"lab": name})) == []
    finally:
        done = impilab(tmp_path, "down")
    assert done.stdout.count("removed ") == 3 * 2 + 2
    assert [seen for seen in engine.inventory.find() if seen.lab == name] == []


def job(folder: Path) -> list[str]:
    """The output of a job's ranks, started as 'up' says; each command in a shell of its own."""
    program = "from mpi4py import MPI; c = MPI.COMM_WORLD; print(f'rank {c.rank} of {c.size}')"
    program = program.replace("from mpi4py", "from impi")
    base = ["ssh", "-F", ".impilab/lab/ssh_config"]
    log = folder / "server.out"
    started = []
    with log.open("w") as out:
        argv = [*base, "server", "bash", "-lc", "'impirun -server 2'"]
        started.append(
            subprocess.Popen(argv, cwd=folder, stdout=out, stdin=subprocess.DEVNULL)
        )
    deadline = time.monotonic() + DEADLINE_S
    while "\n" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    where = log.read_text().splitlines()[0]
    outs = []
    for client, np in ((0, 2), (1, 1)):
        line = f'impirun -client {client} {where} -np {np} --vendor pure python -c "{program}"'
        argv = [
            sys.executable,
            "-m",
            "impi.cli.impilab",
            "exec",
            f"c{client}n0",
            "--",
            "bash",
            "-c",
            line,
        ]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        outs.append(
            subprocess.Popen(
                argv, cwd=folder, env=env, stdout=subprocess.PIPE, text=True
            )
        )
    found = [process.communicate(timeout=DEADLINE_S)[0] for process in outs]
    assert started[0].wait(DEADLINE_S) == 0
    return sorted("".join(found).splitlines())
