"""IMPI_VERIFY on jobs of three vendors: each rank's news, and the end of the job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

PROGRAM = str(Path(__file__).parents[3] / "jobs" / "programs" / "verification.py")


@pytest.mark.parametrize("level", ["1", "3"])
def test_all_ranks_are_told_of_every_misfit(
    level: str, run_job: Callable[..., object]
) -> None:
    clients = ["mpich:2", "openmpi:2", "pure:1"]
    result = run_job([PROGRAM, level], clients, environ={"IMPI_VERIFY": level})
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]
    # Each sentence is said by the rank that it names: 1 of the three is world rank 2, of client 1.
    told = [client.err for client in result.clients]  # type: ignore[attr-defined]
    sentence = "VERIFY MPI_BCAST(1): recvsize=12 > expected sendsize(0)=8\n"
    assert [err.count(sentence) for err in told] == [0, 1, 0]
    assert ("the rule:" in told[1]) == (level == "3")
    where = f"rank 1: MPI_Bcast(root 0, receives 12 octets) at {PROGRAM}:"
    assert [where in err for err in told] == [False, level == "3", False]


GATHER_OR_SCATTER = """
import numpy
from mpi4py import MPI
comm, one, all = MPI.COMM_WORLD, numpy.zeros(1, "i"), numpy.zeros(3, "i")
comm.Gather(one, all) if comm.rank == 0 else comm.Scatter(all, one)
"""

FATAL = """
import numpy
from mpi4py import MPI
MPI.COMM_WORLD.Set_errhandler(MPI.ERRORS_ARE_FATAL)
try:
    MPI.COMM_WORLD.Gather(numpy.zeros(1, "i"), numpy.zeros(3, "i"), 2 if MPI.COMM_WORLD.rank == 2 else 0)
finally:
    print("still alive")
"""

TOO_EARLY = """
from mpi4py import MPI
if MPI.COMM_WORLD.rank != 2:
    MPI.COMM_WORLD.Barrier()
"""


@pytest.mark.parametrize(
    ("program", "sentence"),
    [
        pytest.param(
            GATHER_OR_SCATTER,
            "VERIFY MPI_SCATTER(2): call inconsistent with call to MPI_Gather by 0",
            id="example 1",
        ),
        pytest.param(
            TOO_EARLY,
            "VERIFY MPI_FINALIZE(2): call inconsistent with call to MPI_Barrier by 0",
            id="finalize",
        ),
    ],
)
def test_a_job_that_does_not_catch_it_ends(
    program: str, sentence: str, run_job: Callable[..., object], tmp_path: Path
) -> None:
    file = tmp_path / "program.py"
    file.write_text(program)
    result = run_job(
        [str(file)], ["mpich:1", "openmpi:1", "pure:1"], environ={"IMPI_VERIFY": "1"}
    )
    assert 0 not in result.codes, str(result)  # type: ignore[attr-defined]
    # Every exception has all sentences: the first client to end may end the others.
    assert any(sentence in client.err for client in result.clients), str(result)  # type: ignore[attr-defined]


def test_errors_are_fatal_where_the_program_says_so(
    run_job: Callable[..., object], tmp_path: Path
) -> None:
    file = tmp_path / "program.py"
    file.write_text(FATAL)
    result = run_job(
        [str(file)], ["mpich:1", "openmpi:1", "pure:1"], environ={"IMPI_VERIFY": "1"}
    )
    assert 0 not in result.codes, str(result)  # type: ignore[attr-defined]
    assert result.out == "", str(result)  # type: ignore[attr-defined]
    # Nobody has an exception: what is left is what the rank says that it names.
    assert (
        "VERIFY MPI_GATHER(2): root 2 inconsistent with root 0 of 0\n"
        in result.clients[2].err  # type: ignore[attr-defined]
    )


def test_a_client_that_does_not_verify_is_named(run_job: Callable[..., object]) -> None:
    result = run_job(
        [PROGRAM, "1"], ["pure:1", "pure:1"], environ_of={1: {"IMPI_VERIFY": "1"}}
    )
    assert 0 not in result.codes, str(result)  # type: ignore[attr-defined]
    sentence = "only client 1 has IMPI_VERIFY: start all clients with the same, or none"
    assert any(sentence in client.err for client in result.clients), str(result)  # type: ignore[attr-defined]
