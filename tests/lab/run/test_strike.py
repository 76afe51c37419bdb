"""Hits of the fault matrix: found, done, proved and undone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.lab.programs import strike as program

PARENT = """
import json, subprocess, sys, time
tree = json.loads(sys.argv[1])
open("/proc/self/comm", "w").write(tree["comm"])
for below in tree.get("below", ()):
    argv = [below["program"], __file__, json.dumps(below), *below.get("words", ())]
    subprocess.Popen(argv, stdout=subprocess.PIPE).stdout.readline()
print("up", flush=True)
time.sleep(60)
"""


@pytest.fixture
def impirun(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process with the starter of a mpiexec and that of a host agent below it."""
    script, mpiexec = tmp_path / "parent.py", tmp_path / "mpiexec"
    script.write_text(PARENT)
    mpiexec.symlink_to(sys.executable)
    python = sys.executable
    launcher = {"program": str(mpiexec), "comm": "mpiexec"}
    router = {"program": python, "comm": "python", "words": ["impi.rank.agent"]}
    below = [
        {"program": python, "comm": "impi-starter", "below": [each]}
        for each in (router, launcher)
    ]
    argv = [python, str(script), json.dumps({"comm": "impirun", "below": below})]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        os.killpg(process.pid, signal.SIGKILL)


def test_processes_below_impirun_are_found_by_what_they_are(impirun):
    found = {
        who: program.find(impirun.pid, who)
        for who in ("self", "starter", "mpiexec", "agent")
    }
    assert found["self"] == impirun.pid
    words = {
        who: Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        for who, pid in found.items()
    }
    assert words["agent"][-2] == "impi.rank.agent"
    assert Path(words["mpiexec"][0]).name == "mpiexec"
    parent = (
        Path(f"/proc/{found['mpiexec']}/stat").read_text().rpartition(")")[2].split()[1]
    )
    assert int(parent) == found["starter"]
    assert program.find(found["mpiexec"], "starter") == 0


def test_a_client_below_the_one_that_started_all_is_found_by_its_place(
    tmp_path: Path,
) -> None:
    script, python = tmp_path / "parent.py", sys.executable
    script.write_text(PARENT)
    clients = [
        {"program": python, "comm": "impirun", "words": [str(number)]}
        for number in range(3)
    ]
    starters = [
        {"program": python, "comm": "impi-starter", "below": [client]}
        for client in clients
    ]
    other = {
        "program": python,
        "comm": "sshd",
        "below": [{"program": python, "comm": "impirun"}],
    }
    tree = {"comm": "impirun", "below": [other, *starters]}
    argv = [python, str(script), json.dumps(tree)]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == b"up\n"
        found = [program.client_below(process.pid, number) for number in range(4)]
        words = [
            Path(f"/proc/{pid}/cmdline").read_text().split("\0")[-2]
            for pid in found[:3]
        ]
        os.killpg(process.pid, signal.SIGKILL)
    assert words == ["0", "1", "2"]
    assert found[3] == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_process_that_ends_is_seen_to_end(impirun, number):
    told = program.hit(number, impirun.pid)
    assert told["ended"]
    assert not told["still"]
    assert told["pid"] == impirun.pid
    assert told["was"] in ("S", "R")
    assert impirun.wait(30) == -number


def test_a_process_that_is_stopped_stands_still_until_it_is_thawed(impirun):
    assert not program.stands_still(impirun.pid)
    assert program.hit(signal.SIGSTOP, impirun.pid)["still"]
    assert program.thaw(impirun.pid)["still"]
    assert not program.thaw(impirun.pid)["still"]
    impirun.kill()
    impirun.wait(30)
    assert program.thaw(impirun.pid) == {"pid": impirun.pid, "still": False}


# -- from the lab's side
