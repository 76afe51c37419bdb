"""Jobs in which all channels between clients have TLS."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

STORM = str(Path(__file__).parent / "programs" / "stress.py")
SECRET = {"IMPI_AUTH_SECRET": "correct horse battery"}
SSH = """#!/bin/sh
# ssh [-o OPTION] HOST COMMAND...: a shell of this machine that sees other mounts, as a node's does
while [ "${1#-}" != "$1" ]; do case $1 in -o) shift 2;; *) shift;; esac; done
shift
exec unshare --mount sh -c "$*"
"""
ECHO = """
import sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
said = sys.stdin.read() if comm.rank == 0 else ""
right = (comm.rank + 1) % comm.size
long = comm.sendrecv(bytes([comm.rank]) * 300_000, dest=right, source=comm.rank - 1)
total = comm.allreduce(len(said) + long[0])
if comm.rank == 0:
    print(total)
"""
CLIENTS = ["mpich:2", "openmpi:2", "pure:2"]
TIGHT = ["--datalen", "1000", "--hiwater", "2", "--ackmark", "1"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("storm", "options"),
    [("order", []), ("fairness", TIGHT), ("progress", ["--hosts", "client"])],
)
def test_a_storm_over_tls(
    storm: str, options: list[str], run_job: Callable[..., Any]
) -> None:
    every = dict.fromkeys(range(len(CLIENTS)), options)
    result = run_job(
        [STORM, storm, "10", "1"],
        CLIENTS,
        options=every,
        environ=SECRET,
        server_options=["--tls"],
        deadline_s=120.0,
    )
    assert set(result.codes) == {0}, str(result)
    assert result.out == "all right\n"


def test_a_client_that_knows_no_secret_is_refused(run_job: Callable[..., Any]) -> None:
    result = run_job(
        [STORM, "order", "1", "1"],
        ["pure:1"],
        environ={**SECRET},
        environ_of={0: {"IMPI_AUTH_SECRET": ""}},
        server_options=["--tls"],
        joins=False,
    )
    assert "it offers 0, this server accepts TLS (30)" in str(result)


@pytest.fixture
def nodes(tmp_path: Path) -> dict[str, str]:
    """Variables with which a node of any other name can be reached."""
    try:
        subprocess.run(["unshare", "--mount", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"unshare --mount is not permitted here: {error}")
    (tmp_path / "ssh").write_text(SSH)
    (tmp_path / "ssh").chmod(0o755)
    (tmp_path / "echo.py").write_text(ECHO)
    return {**SECRET, "PATH": f"{tmp_path}:{os.environ['PATH']}"}


def placed(where: str, *more: str) -> list[str]:
    return ["--nodes", where, "--interface", "lo", *more]


@pytest.mark.parametrize(
    ("vendor", "options"),
    [
        ("pure", placed("away:1,localhost:1")),
        ("pure", placed("localhost:1,away:1", "--hosts", "client")),
        ("mpich", placed("away:1,localhost:1", "--own-network")),
    ],
)
def test_procs_on_several_nodes_and_their_input(
    vendor: str,
    options: list[str],
    nodes: dict[str, str],
    tmp_path: Path,
    run_job: Callable[..., Any],
) -> None:
    result = run_job(
        [str(tmp_path / "echo.py")],
        [f"{vendor}:2", "pure:1"],
        options={0: options},
        environ=nodes,
        server_options=["--tls"],
        stdin="x" * 200_000,
    )
    assert set(result.codes) == {0}, str(result)
    assert result.out == "200003\n"


def test_what_is_in_clear_between_nodes_ends_the_job_in_one_sentence(
    nodes: dict[str, str], run_job: Callable[..., Any]
) -> None:
    result = run_job(
        ["true"],
        ["mpich:2"],
        options={0: placed("away:1,localhost:1")},
        environ=nodes,
        server_options=["--tls"],
    )
    assert result.codes == [4, 4], str(result)
    why = "this job has --tls, and what MPICH sends between"
    told = [line.count(why) for line in str(result).splitlines() if why in line]
    assert told == [1, 1]
