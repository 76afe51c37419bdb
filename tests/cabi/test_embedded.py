"""Programs that embed Python: to them it is there from when they ask to when they end it."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PLACE = sysconfig.get_config_var("LIBDIR")
FLAGS = (
    *(f"-I{sysconfig.get_path('include')}", f"-L{PLACE}", f"-Wl,-rpath,{PLACE}"),
    # Before the library of MPI: whose names come first must not matter
    "-Wl,--no-as-needed",
    f"-lpython{sysconfig.get_python_version()}",
)
CLIENTS = {
    "mpich": ["mpich:1", "pure:1"],
    "openmpi": ["openmpi:2", "mpich:1"],
    "impicc": ["pure:1", "pure:1"],
}
WAYS = (
    ("after", "before"),
    ("after", "after"),
    ("after", "never"),
    ("before", "before"),
    ("before", "after"),
)

ALL = (*WAYS, ("unasked", "after"))
CASES = [("mpich", "", *way) for way in ALL]
CASES += [
    ("mpich", "--stand-in", *ALL[0]),
    ("mpich", "--stand-in", *ALL[4]),
    ("openmpi", "", *ALL[1]),
    ("impicc", "", *ALL[1]),
    ("impicc", "", *ALL[3]),
]


def lines(out: str, end: str) -> list[str]:
    """Return the lines of all ranks, less what Python may keep where the program never ends it."""
    return sorted(
        line for line in out.splitlines() if end != "never" or "says" not in line
    )


def told(begin: str, end: str, rank: int, total: int) -> list[str]:
    """Return the lines of a rank, as they are under a vendor alone."""
    first = [] if begin == "before" else [f"rank {rank}: there 0"]
    python = [] if begin == "unasked" else [f"rank {rank}: Python says 42"]
    there = int(end == "never" and begin != "unasked")
    return [*first, *python, f"rank {rank}: sum {total}, there {there}"]


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
@pytest.mark.parametrize(("abi", "mode", "begin", "end"), CASES)
def test_python_is_there_as_under_the_vendor(
    compiled: Callable[..., str],
    run_job: Callable[..., Any],
    abi: str,
    mode: str,
    begin: str,
    end: str,
) -> None:
    program = compiled("embeds", abi, *FLAGS)
    clients = CLIENTS[abi]
    done = run_job([program, begin, end], clients, options={0: mode.split()})
    count = sum(int(each.partition(":")[2]) for each in clients)
    assert set(done.codes) == {0}, done
    expected = [
        line
        for rank in range(count)
        for line in told(begin, end, rank, count * (count - 1) // 2)
    ]
    assert lines(done.out, end) == sorted(
        line for line in expected if end != "never" or "says" not in line
    )


@pytest.mark.vendor("mpich")
@pytest.mark.parametrize(("begin", "end"), ALL)
def test_the_vendor_alone_says_the_same(
    compiled: Callable[..., str], begin: str, end: str
) -> None:
    program = compiled("embeds", "mpich", *FLAGS)
    mpiexec = ROOT / ".mpi/mpich/bin/mpiexec"
    argv = [str(mpiexec), "-n", "1", program, begin, end]
    environ = {**os.environ, "LD_LIBRARY_PATH": str(ROOT / ".mpi/mpich/lib")}
    done = subprocess.run(
        argv, capture_output=True, text=True, timeout=60, check=True, env=environ
    )
    assert lines(done.stdout, end) == lines("\n".join(told(begin, end, 0, 0)), end)
