"""The modules that ranks load: as few as their program needs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pairs import pairs

PROGRAM = str(Path(__file__).parents[3] / "jobs" / "programs" / "without_numpy.py")


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("clients", "version"),
    pairs(
        [["mpich:2", "openmpi:2"], ["pure:2", "pure:1"]],
        [[], ["--impi-version", "0.0"]],
    ),
)
def test_without_numpy(
    clients: list[str], version: list[str], run_job: Callable[..., object]
) -> None:
    result = run_job(
        [PROGRAM, *version],
        clients,
        options=dict.fromkeys(range(len(clients)), version),
    )
    assert set(result.codes) == {0}, str(result)  # type: ignore[attr-defined]
    assert result.out == "all right\n"  # type: ignore[attr-defined]


def test_importing_loads_no_numpy() -> None:
    result = run("from impi import MPI\nimport sys\nassert 'numpy' not in sys.modules")
    assert result.returncode == 0, result.stderr


def test_what_needs_numpy_loads_it() -> None:
    code = """
import sys, pickle
from impi import MPI
assert "buffer" in dir(MPI) and "memory" in dir(MPI) and "numpy" not in sys.modules
import numpy as np
assert MPI.memory is MPI.buffer and issubclass(MPI.buffer, np.ndarray)
memory = MPI.Alloc_mem(8)
assert isinstance(memory, MPI.buffer)
assert bytes(pickle.loads(pickle.dumps(MPI.buffer(b"abc")))) == b"abc"
try:
    MPI.no_such_name
except AttributeError as error:
    assert "no_such_name" in str(error)
else:
    raise SystemExit(1)
"""
    result = run(code)
    assert result.returncode == 0, result.stderr


def test_a_star_brings_the_buffer_too() -> None:
    result = run(
        "from impi.MPI import *\nassert issubclass(type(buffer()), memory)\nassert COMM_WORLD.size == 1"
    )
    assert result.returncode == 0, result.stderr
