"""The costs of a job's start: processes, threads, programs and modules, counted by strace."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
TABLE = tomllib.loads((HERE / "starts.toml").read_text())
KINDS = ("processes", "threads", "programs", "modules")
"""The columns of the table: all of one command, its server, clients and procs."""
PROGRAM = "from mpi4py import MPI; MPI.COMM_WORLD.Barrier()"
_CALLS = "execve,clone,clone3,fork,vfork,openat"
_DONE = re.compile(r"= (\d+)(?: |$)")
# A module that some distributions add to their Python, Debian for one
_DISTRIBUTION = re.compile(r"/lib/python3\.\d+/__pycache__/sitecustomize\.")


def counted(folder: Path, clients: str) -> tuple[int, ...]:
    """Start a job of ``VENDOR:PROCS`` clients by one command; return its :data:`KINDS`."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    words: list[str] = []
    for client in clients.split("+"):
        vendor, _, procs = client.partition(":")
        words += [
            *([":"] if words else []),
            "-n",
            procs,
            "--vendor",
            vendor,
            str(program),
        ]
    traces = folder / "traces"
    traces.mkdir()
    # A file for each thread: lines of calls are whole then.
    argv = [
        "strace",
        "-ff",
        "-q",
        "-e",
        f"trace={_CALLS}",
        "-o",
        str(traces / "of"),
        sys.executable,
    ]
    subprocess.run(
        [*argv, "-m", "impi.cli.impirun", *words],
        check=True,
        timeout=120,
        capture_output=True,
    )
    return of_traces([path.read_text("utf-8", "replace") for path in traces.iterdir()])


def of_traces(traces: list[str]) -> tuple[int, ...]:
    """Return the :data:`KINDS` of traces, one for each thread."""
    found: Counter[str] = Counter()
    for line in "\n".join(traces).splitlines():
        done = _DONE.search(line)
        found["threads"] += bool(
            done and line.startswith("clone") and "CLONE_THREAD" in line
        )
        found["programs"] += bool(done and line.startswith("execve("))
        found["modules"] += bool(
            done
            and line.startswith("openat(")
            and '.pyc"' in line
            and not _DISTRIBUTION.search(line)
        )
    return (
        len(traces) - found["threads"],
        found["threads"],
        found["programs"],
        found["modules"],
    )


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.parametrize("clients", TABLE)
def test_a_start_costs_what_the_table_says(tmp_path: Path, clients: str) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    found = counted(tmp_path, clients)
    row = TABLE[clients]
    assert all(number <= most for number, most in zip(found, row, strict=True)), dict(
        zip(KINDS, found, strict=True)
    )
    assert all(number >= 0.9 * most for number, most in zip(found, row, strict=True)), (
        "the table tells an old story"
    )


def test_a_dearer_start_would_be_seen() -> None:
    first = 'execve("/bin/python", ["python"], 0x7 /* 9 vars */) = 0\nclone3({flags=CLONE_VM|CLONE_THREAD}, 88) = 7\n'
    second = 'openat(AT_FDCWD, "/x/a.cpython-311.pyc", O_RDONLY) = 3\nopenat(AT_FDCWD, "b.pyc", O_RDONLY) = -1 ENOENT\n'
    assert of_traces([first, second]) == (1, 1, 1, 1)
    assert of_traces([first, second, ""]) == (2, 1, 1, 1)
    assert of_traces([first + first.splitlines()[0], second])[2] == 2
