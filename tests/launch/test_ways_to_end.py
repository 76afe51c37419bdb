"""How programs end: exit codes of ``python -m mpi4py``, exit functions, os._exit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pairs import pairs

PROGRAM = str(Path(__file__).parent / "programs" / "exits.py")
RunJob = Callable[..., Any]

MIXED = ["mpich:1", "openmpi:1"]
PURE = ["pure:1", "pure:1"]


@pytest.mark.parametrize(
    ("way", "clients"), pairs(["exit", "text", "error", "interrupt"], [MIXED, PURE, ["openmpi:1", "pure:1"]])
)
def test_mpi4py_run_keeps_the_exit_code(way: str, clients: list[str], run_job: RunJob) -> None:
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
def test_a_second_interrupt_before_the_first_is_handled_ends_the_job_too(clients: list[str], run_job: RunJob) -> None:
    result = run_job([PROGRAM, "interrupts"], clients)
    assert result.clients[0].code == 130, str(result)
    assert "KeyboardInterrupt" in result.clients[0].err


@pytest.mark.parametrize("clients", [MIXED, PURE])
def test_exit_functions_from_before_the_import_run_before_finalize(clients: list[str], run_job: RunJob) -> None:
    result = run_job([PROGRAM, "atexit"], clients)
    assert result.codes == [0, 0, 0], str(result)
    assert result.out == "all at the end\n" * 2


@pytest.mark.parametrize("clients", [["mpich:2", "pure:1"], ["openmpi:2", "mpich:1"]])
def test_after_finalize_a_rank_may_leave_at_once(clients: list[str], run_job: RunJob) -> None:
    result = run_job([PROGRAM, "finalized"], clients)
    assert result.codes == [0, 0, 0], str(result)
    assert not result.clients[0].err
