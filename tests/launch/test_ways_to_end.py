"""How programs end: exit codes of ``python -m mpi4py``, exit functions, os._exit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pairs import pairs

from tests.conftest import need_vendor

PROGRAM = str(Path(__file__).parent / "programs" / "exits.py")
RunJob = Callable[..., Any]

MIXED = ["mpich:1", "openmpi:1"]
PURE = ["pure:1", "pure:1"]


@pytest.mark.parametrize(
    ("way", "clients"),
    pairs(
        ["exit", "text", "error", "interrupt"], [MIXED, PURE, ["openmpi:1", "pure:1"]]
    ),
)
def test_mpi4py_run_keeps_the_exit_code(
    way: str, clients: list[str], run_job: RunJob
) -> None:
    code, text = {
        "exit": (3, "MPI_A"),
        "text": (1, "a text of the program"),
        "error": (1, "RuntimeError: an error of the program"),
        "interrupt": (130, "KeyboardInterrupt"),
    }[way]
    result = run_job([sys.executable, "-m", "mpi4py", PROGRAM, way], clients)
    assert result.clients[0].code == code, str(result)
    assert text in result.clients[0].err
    assert "MPI_A" in result.clients[0].err  # MPI_Abort, MPI_ABORT
    assert ("Traceback" in result.clients[0].err) == (way in ("error", "interrupt"))


@pytest.mark.parametrize("clients", [MIXED, PURE])
def test_a_second_interrupt_before_the_first_is_handled_ends_the_job_too(
    clients: list[str], run_job: RunJob
) -> None:
    result = run_job([PROGRAM, "interrupts"], clients)
    assert result.clients[0].code == 130, str(result)
    assert "KeyboardInterrupt" in result.clients[0].err


@pytest.mark.parametrize("clients", [MIXED, PURE])
def test_exit_functions_from_before_the_import_run_before_finalize(
    clients: list[str], run_job: RunJob
) -> None:
    result = run_job([PROGRAM, "atexit"], clients)
    assert result.codes == [0, 0, 0], str(result)
    assert result.out == "all at the end\n" * 2


@pytest.mark.parametrize("clients", [["mpich:2", "pure:1"], ["openmpi:2", "mpich:1"]])
def test_after_finalize_a_rank_may_leave_at_once(
    clients: list[str], run_job: RunJob
) -> None:
    result = run_job([PROGRAM, "finalized"], clients)
    assert result.codes == [0, 0, 0], str(result)
    assert not result.clients[0].err


@pytest.mark.parametrize("rank", [1, 3])
@pytest.mark.parametrize(
    "clients", [["mpich:2", "pure:2"], ["openmpi:2", "pure:2"], ["pure:2", "mpich:2"]]
)
def test_the_code_of_the_job_is_that_of_the_rank_that_has_one(
    clients: list[str], rank: int, run_job: RunJob, tmp_path: Path
) -> None:
    """MPICH's mpiexec tells 0, though one of its procs has ended with 3."""
    result = run_job([PROGRAM, str(tmp_path), str(rank), "code"], clients)
    # The other client may have said FINI before.
    assert result.server.code == 3 and result.clients[rank // 2].code == 3, str(result)
    assert result.server.err.count("with exit code 3") >= 1


@pytest.mark.parametrize("clients", [["mpich:2", "pure:2"], ["pure:2", "pure:1"]])
def test_procs_that_all_leave_with_0_are_no_failure(
    clients: list[str], run_job: RunJob, tmp_path: Path
) -> None:
    result = run_job([PROGRAM, str(tmp_path), "-1", "code"], clients)
    assert result.codes == [0, 0, 0], str(result)


@pytest.mark.parametrize(
    "clients", [["mpich:2", "pure:2"], ["openmpi:2", "pure:2"], ["pure:2", "openmpi:1"]]
)
def test_last_lines_without_an_end_have_their_labels(
    clients: list[str], run_job: RunJob
) -> None:
    result = run_job([PROGRAM, "unended"], clients, options={0: ["-l"], 1: ["-l"]})
    assert result.codes == [0, 0, 0], str(result)
    for client, told in enumerate(result.clients):
        size = int(clients[client].partition(":")[2])
        assert sorted(told.out.splitlines()) == sorted(
            f"[{client}:{rank}] {what} {rank}"
            for rank in range(size)
            for what in ("whole", "unended")
        )


@pytest.mark.parametrize(
    "clients", [["mpich:2", "pure:2"], ["openmpi:2", "pure:2"], ["pure:2", "openmpi:2"]]
)
def test_what_others_have_printed_without_an_end_outlives_an_abort(
    clients: list[str], run_job: RunJob
) -> None:
    result = run_job([PROGRAM, "abort"], clients)
    assert result.codes == [5, 5, 5], str(result)
    for rank in range(4):
        assert f"unended {rank}" in result.clients[rank // 2].out


def test_a_library_that_dies_for_want_of_space_is_told_with_that() -> None:
    """In a mount namespace of its own /dev/shm has 64 KB."""
    full = 'mount -t tmpfs -o size=64k none /dev/shm && exec "$0" "$@"'
    there = subprocess.run(
        ["unshare", "-m", "sh", "-c", full, "true"],
        check=False,
        capture_output=True,
        text=True,
    )
    if there.returncode:
        pytest.skip(f"no mount namespaces here: {there.stderr}")
    need_vendor("mpich")
    argv = [
        sys.executable,
        "-m",
        "impi.cli.impirun",
        "-n",
        "2",
        "--vendor",
        "mpich",
        ":",
        "-n",
        "1",
        PROGRAM,
        "atexit",
    ]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", full, *argv],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode not in (0, 4)
    assert (
        "/dev/shm has 0 MB of free space, which its library may need, before the program"
        in done.stderr
    )


def test_a_proc_that_may_open_few_files_says_so(run_job: RunJob) -> None:
    few = ["sh", "-c", 'ulimit -n 9; exec "$0" "$@"', sys.executable, PROGRAM, "atexit"]
    result = run_job(few, ["pure:2", "pure:2"])
    assert result.codes == [1, 1, 1], str(result)
    assert "Traceback" not in str(result)
    assert "'ulimit -n' shows how many files it may have open: raise that" in str(
        result
    )
