"""The examples under each MPI library: one right answer for every number of processes."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pairs import pairs

TOP = Path(__file__).parent.parent.parent
DEADLINE_S = 60
SETTINGS = {
    # Containers refuse shared memory by ptrace; the default network provider is slow.
    "mpich": {"MPIR_CVAR_CH4_CMA_ENABLE": "0"},
    "openmpi": {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_btl": "^ofi",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    },
}
VENDORS = [
    pytest.param(name, marks=pytest.mark.vendor(name)) for name in ("mpich", "openmpi")
]
vendors = pytest.mark.parametrize("vendor", VENDORS)


def mpiexec(vendor: str, nprocs: int, *argv: str) -> subprocess.CompletedProcess[str]:
    prefix = TOP / ".mpi" / vendor
    if not (prefix / "bin" / "mpiexec").exists():
        pytest.skip(f"{prefix} is missing: 'make test' puts {vendor} there")
    program = str(TOP / "examples" / argv[0])
    command = [
        str(prefix / "bin" / "mpiexec"),
        "-n",
        str(nprocs),
        sys.executable,
        program,
        *argv[1:],
    ]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **SETTINGS[vendor], "MPI4PY_LIBMPI": str(prefix / "lib")},
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"{command} did not end within {DEADLINE_S} s: {out}{err}")
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def answer(vendor: str, nprocs: int, *argv: str) -> str:
    done = mpiexec(vendor, nprocs, *argv)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def serial_heat(points: int, steps: int) -> tuple[float, float]:
    """Residual and checksum, point by point."""
    at = np.arange(points) / points
    inner = 100.0 * np.exp(
        -40.0 * ((at[None, :] - 0.4) ** 2 + (at[:, None] - 0.6) ** 2)
    )
    plate = np.pad(inner, 1)
    residual = 0.0
    for _ in range(steps):
        before = plate.copy()
        for i in range(1, points + 1):
            for j in range(1, points + 1):
                neighbours = (
                    before[i - 1, j]
                    + before[i + 1, j]
                    + before[i, j - 1]
                    + before[i, j + 1]
                )
                plate[i, j] += 0.2 * (neighbours - 4.0 * before[i, j])
        residual = float(np.abs(plate - before).max())
    return residual, float(plate.sum()) / points**2


def serial_mandelbrot(rows: int, depth: int = 100) -> tuple[int, int]:
    """Points in the set, and steps in all."""
    inside = steps = 0
    for row in range(rows):
        for column in range(2 * rows):
            c = complex(-2.0 + 3.0 * column / (2 * rows - 1), -1.0 + 2.0 * row / rows)
            z = 0j
            survived = 0
            while survived < depth and abs(z := z * z + c) <= 2.0:
                survived += 1
            inside += survived == depth
            steps += survived
    return inside, steps


@vendors
@pytest.mark.parametrize("nprocs", [1, 3])
def test_pi(vendor: str, nprocs: int) -> None:
    assert (
        answer(vendor, nprocs, "pi.py") == f"pi = {math.pi:.12f} with 1000000 intervals"
    )


@vendors
@pytest.mark.parametrize("nprocs", [1, 3])
def test_ring(vendor: str, nprocs: int) -> None:
    checksum = sum(math.sqrt(i) for i in range(500))
    expected = f"every token came home after 4 laps, checksum {checksum:.6f}"
    assert answer(vendor, nprocs, "ring.py", "4", "500") == expected


@vendors
@pytest.mark.parametrize("nprocs", [1, 3])
def test_heat2d(vendor: str, nprocs: int) -> None:
    residual, checksum = serial_heat(16, 25)
    expected = f"16 x 16 points after 25 steps: residual {residual:.6f}, checksum {checksum:.6f}"
    assert answer(vendor, nprocs, "heat2d.py", "16", "25") == expected


@vendors
@pytest.mark.parametrize("nprocs", [1, 3])
def test_masterworker(vendor: str, nprocs: int) -> None:
    inside, steps = serial_mandelbrot(30)
    expected = f"{inside} of 1800 points are in the set, {steps} steps in all"
    assert answer(vendor, nprocs, "masterworker.py", "30") == expected


@vendors
def test_more_workers_than_work(vendor: str) -> None:
    inside, steps = serial_mandelbrot(2)
    expected = f"{inside} of 8 points are in the set, {steps} steps in all"
    assert answer(vendor, 4, "masterworker.py", "2") == expected


BAD_ARGUMENTS = {
    "pi.py many": "pi.py: give one positive number of intervals, not 'many'.",
    "pi.py 0": "pi.py: give one positive number of intervals, not '0'.",
    "ring.py 2 -1": "ring.py: give a positive number of laps and a positive length, not '2 -1'.",
    "heat2d.py x": "heat2d.py: give a positive number of points and of steps, not 'x'.",
    "heat2d.py 1": "heat2d.py: 1 x 1 points are too few for 2 processes; every process needs a row.",
    "masterworker.py 1 2": "masterworker.py: give one positive number of rows, not '1 2'.",
}


@pytest.mark.parametrize(("command", "vendor"), pairs([*BAD_ARGUMENTS], VENDORS))
def test_a_bad_argument_is_one_sentence(command: str, vendor: str) -> None:
    argv, sentence = command.split(), BAD_ARGUMENTS[command]
    done = mpiexec(vendor, 2, *argv)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count(sentence) == 1
    assert "Traceback" not in done.stderr
