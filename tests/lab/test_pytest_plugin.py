"""The fixture for users' own tests, used by tests of a user."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DEADLINE_S = 180
CONFTEST = 'pytest_plugins = ["impi.lab.pytest_plugin"]\n'
TESTS = """
def test_a_job(impi_lab):
    lab = impi_lab("1x2+1x1", "pure+pure")
    job = lab.run("program.py", "hello", env={"MINE": "yes"})
    assert job.ok, job
    assert sorted(job.stdout.split("\\n")) == ["", "0 of 3 hello yes", "1 of 3 hello yes", "2 of 3 hello yes"]

def test_the_same_lab(impi_lab):
    assert impi_lab("1x2+1x1", "pure+pure").lab is impi_lab("1x2+1x1", "pure+pure").lab
    assert impi_lab("1x1+1x1", "pure+pure").lab is not impi_lab("1x2+1x1", "pure+pure").lab

def test_a_failure(impi_lab):
    job = impi_lab("1x2+1x1", "pure+pure").run("program.py", "fail")
    assert not job.ok
    assert "as asked" in str(job)

def test_a_hang(impi_lab):
    job = impi_lab("1x2+1x1", "pure+pure").run("program.py", "hang", timeout_s=5)
    assert job.clients[0].code is None
    assert "ended by the deadline" in str(job)
    assert impi_lab("1x2+1x1", "pure+pure").lab.residue() == []
"""
PROGRAM = """
import os, sys, time
from impi import MPI
if sys.argv[1] == "fail":
    sys.exit("as asked")
if sys.argv[1] == "hang":
    time.sleep(600)
print(f"{MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size} {sys.argv[1]} {os.environ['MINE']}\\n", end="")
"""


@pytest.mark.slow
def test_a_users_tests(tmp_path):
    temporary = tmp_path / "t"
    temporary.mkdir()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_mine.py").write_text(TESTS)
    (tmp_path / "program.py").write_text(PROGRAM)
    argv = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--impi-backend",
        "local",
    ]
    done = subprocess.run(
        argv,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert "4 passed" in done.stdout, done.stdout + done.stderr
    assert list(temporary.iterdir()) == []
