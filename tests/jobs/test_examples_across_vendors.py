"""One file gives the same answer under one vendor's mpiexec and across three vendors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def under_mpich(program: Path) -> str:
    prefix = ROOT / ".mpi" / "mpich"
    environ = {
        **os.environ,
        "MPI4PY_LIBMPI": str(prefix / "lib"),
        "MPIR_CVAR_CH4_CMA_ENABLE": "0",
    }
    done = subprocess.run(
        [str(prefix / "bin" / "mpiexec"), "-n", "3", sys.executable, str(program)],
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize("program", EXAMPLES, ids=lambda path: path.stem)
def test_same_answer_across_three_vendors(
    program: Path, run_job: Callable[..., object]
) -> None:
    result = run_job([str(program)], ["mpich:2", "openmpi:2", "pure:2"])
    assert result.codes == [0, 0, 0, 0], str(result)  # type: ignore[attr-defined]
    assert result.out == under_mpich(program)  # type: ignore[attr-defined]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
