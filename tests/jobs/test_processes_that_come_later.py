"""Ports, Spawn and Join across jobs and vendors (MPI 4.1, chapter 11)."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from impi.engine import bootstrap
from impi.options import Offer

PROGRAMS = Path(__file__).parent / "programs"
MEETING = str(PROGRAMS / "meeting.py")
SPAWNING = str(PROGRAMS / "spawning.py")


def both(run_job: Callable[..., Any], file: Path, clients: Sequence[Sequence[str]], *words: str, **options: Any) -> Any:
    """Run an accepting and a connecting job at a time; ``options`` are for the second."""
    with ThreadPoolExecutor(2) as pool:
        accepting = pool.submit(run_job, [MEETING, "accept", str(file), *words], clients[0])
        connecting = pool.submit(run_job, [MEETING, "connect", str(file), *words], clients[1], **options)
        return accepting.result(), connecting.result()


@pytest.mark.parametrize(
    ("accepting", "connecting"),
    [
        pytest.param(["mpich:2", "pure:1"], ["openmpi:2"], id="three vendors"),
        pytest.param(["pure:1"], ["pure:2", "mpich:1"], id="one proc"),
        pytest.param(["openmpi:2"], ["openmpi:2"], id="one vendor"),
    ],
)
def test_two_jobs_meet(
    accepting: list[str], connecting: list[str], run_job: Callable[..., Any], tmp_path: Path
) -> None:
    for job in both(run_job, tmp_path / "port", [accepting, connecting]):
        assert set(job.codes) == {0}, str(job)


def test_a_job_with_agents_meets_another(run_job: Callable[..., Any], tmp_path: Path) -> None:
    agents = {"options": {0: ["--hosts", "client"], 1: ["--hosts", "node"]}}
    for job in both(run_job, tmp_path / "port", [["pure:2"], ["pure:2", "mpich:2"]], **agents):
        assert set(job.codes) == {0}, str(job)


def test_a_process_without_impirun_meets_a_job(run_job: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "port"
    with ThreadPoolExecutor(1) as pool:
        accepting = pool.submit(run_job, [MEETING, "accept", str(file)], ["mpich:1", "pure:1"])
        code = (
            "import runpy, sys, impi.MPI, mpi4py\nsys.modules['mpi4py.MPI'] = mpi4py.MPI = impi.MPI\n"
            f"sys.argv = ['', 'connect', {str(file)!r}]\nrunpy.run_path({MEETING!r})"
        )
        alone = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False)
        job = accepting.result()
    assert set(job.codes) == {0}, f"{job}\n{alone.stderr}"
    assert (alone.returncode, alone.stdout) == (0, "connect 0\n"), alone.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--datalen", "4096"], "--datalen is {} in one job and {} in the other; start both alike"),
        (["--impi-version", "0.0"], "jobs of IMPI 0.0 cannot meet: each client needs a version of our own"),
    ],
)
def test_jobs_that_differ_are_refused_on_both_sides(
    options: list[str], told: str, run_job: Callable[..., Any], tmp_path: Path
) -> None:
    accepting, connecting = both(run_job, tmp_path / "port", [["pure:1"], ["pure:2"]], "refused", options={0: options})
    assert set(accepting.codes) == set(connecting.codes) == {0}, f"{accepting}\n{connecting}"
    assert told.format(262144, 4096) in accepting.out
    assert told.format(4096, 262144) in connecting.out


@pytest.mark.parametrize("clients", [["mpich:1", "openmpi:1"], ["pure:2", "mpich:1"]], ids="+".join)
def test_procs_start_others(clients: list[str], run_job: Callable[..., Any]) -> None:
    result = run_job([SPAWNING], clients)
    assert set(result.codes) == {0}, str(result)
    lines = [line for line in result.clients[0].out.splitlines() if line]
    assert lines == ["['one'] 2", "['two'] 3", "['four'] 1", "refused"], str(result)


def test_a_lost_parent_ends_its_children(run_job: Callable[..., Any], tmp_path: Path) -> None:
    """And the other way: connected jobs are one for failures (MPI 4.1, 11.10.4)."""
    program = tmp_path / "lost.py"
    program.write_text(
        "import os, signal, sys\nfrom mpi4py import MPI\nparents = MPI.Comm.Get_parent()\n"
        "if parents != MPI.COMM_NULL:\n"
        "    parents.send(os.getpid(), 0)\n    parents.recv(source=0)\n    sys.exit()\n"
        f"children = MPI.COMM_WORLD.Spawn(sys.executable, [{str(program)!r}])\n"
        "print(children.recv(source=0), flush=True)\nos.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result = run_job([str(program)], ["pure:1"])
    assert result.codes[1] != 0
    child = int(result.clients[0].out)
    assert ends(child)


def ends(pid: int) -> bool:
    """Whether a process ends within 30 s."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(fd):
        return bool(select.select([fd], [], [], 30)[0])


def test_an_executor_starts_its_workers(run_job: Callable[..., Any], tmp_path: Path) -> None:
    program = tmp_path / "executor.py"
    program.write_text(
        "from mpi4py import MPI\nfrom mpi4py.futures import MPIPoolExecutor\nif __name__ == '__main__':\n"
        "    if MPI.COMM_WORLD.rank == 1:\n        with MPIPoolExecutor(2) as pool:\n"
        "            print(list(pool.map(abs, [-1, -2])))\n    MPI.COMM_WORLD.Barrier()\n"
    )
    result = run_job([str(program)], ["mpich:1", "openmpi:1"])
    assert set(result.codes) == {0}, str(result)
    assert result.clients[1].out.strip() == "[1, 2]", str(result)


def test_a_process_alone_has_the_limits_that_clients_offer() -> None:
    """Or it could not meet a job; it does not load the options at its start."""
    job, offer = bootstrap._singleton(), Offer()
    assert (job.maxdatalen, job.ackmark, job.hiwater) == (offer.datalen, offer.ackmark, offer.hiwater)
