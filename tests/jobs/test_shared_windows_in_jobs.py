"""Shared windows of the procs of one client on one node, under every vendor."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "shared_windows.py")


@pytest.mark.parametrize(
    "clients",
    [["mpich:2", "openmpi:2", "pure:2"], ["pure:3"], ["mpich:3", "openmpi:3"]],
    ids="+".join,
)
def test_every_vendor(clients: list[str], run_job: Callable[..., Any]) -> None:
    size = clients[0].partition(":")[2]
    result = run_job([PROGRAM, size], clients)
    assert set(result.codes) == {0}, str(result)
    assert result.out == "shared\n" * int(size) * len(clients)


def test_procs_that_do_not_share_their_memory(
    run_job: Callable[..., Any], tmp_path: Path
) -> None:
    """Each proc has a /dev/shm of its own, as in containers with one host name and address."""
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-m", "true"], check=False).returncode
    ):
        pytest.skip("unshare -m is not permitted here")
    program = tmp_path / "program.py"
    program.write_text(
        "from mpi4py import MPI\nnode = MPI.COMM_WORLD.Split_type(MPI.COMM_TYPE_SHARED)\n"
        "MPI.Win.Allocate_shared(8, comm=node).Free()\n"
        "try:\n    MPI.Win.Allocate_shared(8, comm=MPI.COMM_WORLD)\nexcept MPI.Exception as failure:\n"
        "    print(node.size, failure.Get_error_class() == MPI.ERR_RMA_SHARED)\n"
    )
    inside = (
        f"mount -t tmpfs -o size=16m apart /dev/shm && exec {sys.executable} {program}"
    )
    result = run_job(["unshare", "-m", "sh", "-c", inside], ["pure:3"])
    assert set(result.codes) == {0}, str(result)
    assert result.out == "1 True\n" * 3


KILLED = """
import os, signal
from mpi4py import MPI
comm = MPI.COMM_WORLD
window = MPI.Win.Allocate_shared(8, comm=comm)
if comm.rank == 1:
    window.Lock(0)
comm.Barrier()
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
window.Lock(0)
comm.Barrier()
"""


@pytest.mark.parametrize("vendor", ["pure", "mpich", "openmpi"])
def test_a_killed_proc_that_has_a_lock_ends_the_job(
    vendor: str, run_job: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "program.py"
    file.write_text(KILLED)
    result = run_job([str(file)], [f"{vendor}:3"])
    assert 0 not in result.codes and "ended by the test" not in str(result), str(result)
