"""Real jobs whose procs impirun starts itself, as the process manager of MPICH's library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = str(Path(__file__).parent / "programs" / "managed.py")
LEAVES = str(Path(__file__).parent / "programs" / "odd_ranks_only.py")
RunJob = Callable[..., Any]
PMI = ["--launcher", "pmi"]


@pytest.mark.parametrize(
    ("clients", "options"),
    [
        (["mpich:3", "pure:1"], {0: PMI}),
        (["mpich:2", "mpich:2"], {0: PMI, 1: PMI}),
        (["mpich:2", "openmpi:1"], {0: [*PMI, "--hosts", "client"]}),
        # Two nodes, which are both here: MPICH's library takes them for two.
        pytest.param(["mpich:2", "pure:1"], {0: [*PMI, "--nodes", "localhost:1,127.0.0.1:1"]}, marks=pytest.mark.proof),
    ],
)
def test_a_ring_without_an_mpiexec(clients: list[str], options: dict[int, list[str]], run_job: RunJob) -> None:
    crowded = {"MPIR_CVAR_POLLS_BEFORE_YIELD": "1", "FI_TCP_IFACE": "lo"}
    result = run_job([PROGRAM, "end"], clients, options=options, environ=crowded, stdin="and its input")
    assert result.codes == [0, 0, 0], str(result)
    size = sum(int(client.partition(":")[2]) for client in clients)
    assert result.out == f"a ring of {size}, and its input\n"
    assert not result.clients[0].err


def test_mpi_abort_ends_the_job_with_its_code(run_job: RunJob) -> None:
    result = run_job([PROGRAM, "abort"], ["mpich:3", "pure:1"], options={0: PMI}, stdin="")
    assert [end.code for end in result.clients] == [7, 7], str(result)
    assert "rank 1 of this client ended with exit code 7" in result.clients[0].err
    assert "called MPI_Abort" in result.clients[0].err


def test_a_rank_that_is_killed_ends_the_job(run_job: RunJob) -> None:
    result = run_job([PROGRAM, "kill"], ["mpich:3", "pure:1"], options={0: PMI}, stdin="")
    assert [end.code for end in result.clients] == [137, 137], str(result)
    assert "rank 1 of this client was ended by SIGKILL, while the job was running" in result.clients[0].err


def test_a_rank_that_leaves_ends_the_job(run_job: RunJob) -> None:
    result = run_job([PROGRAM, "leave"], ["mpich:3", "pure:1"], options={0: PMI}, stdin="")
    assert [end.code for end in result.clients] == [1, 1], str(result)
    assert "rank 1 of this client ended with exit code 0, but without MPI_Finalize" in result.clients[0].err


def test_a_rank_that_never_comes_ends_the_job(run_job: RunJob) -> None:
    result = run_job([LEAVES], ["mpich:2", "pure:2"], options={0: PMI})
    assert [end.code for end in result.clients] == [1, 1], str(result)
    assert "rank 0 of this client ended without initialising MPI, while others wait for it" in str(result)


@pytest.mark.parametrize(
    ("vendor", "why"), [("pure", "pure has no library"), ("openmpi", "openmpi does not speak PMI-1")]
)
def test_other_libraries_are_refused_in_a_sentence(vendor: str, why: str, run_job: RunJob) -> None:
    result = run_job([PROGRAM], [f"{vendor}:1"], options={0: PMI})
    assert result.clients[0].code == 4, str(result)
    assert f"--launcher pmi is for libraries such as MPICH: {why}" in result.clients[0].err
