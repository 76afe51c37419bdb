"""examples/coupled: two solvers under two MPI libraries compute one plate."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

RUN = Path(__file__).parents[2] / "examples/coupled/run.sh"
DEADLINE_S = 120


def run(*argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(RUN), *argv],
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def heats(points: int, steps: int) -> tuple[float, float]:
    """The heat of both halves of a plate that one process computes."""
    plate = np.zeros((points + 2, 2 * points + 2))
    plate[points // 2 + 1 : -1, 1 : points + 1] = 1.0
    for _ in range(steps):
        around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
        plate[1:-1, 1:-1] += 0.2 * (around - 4.0 * plate[1:-1, 1:-1])
    inner = plate[1:-1, 1:-1]
    return float(inner[:, :points].sum()), float(inner[:, points:].sum())


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
def test_two_libraries_compute_one_plate() -> None:
    done = run("20", "50")
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done
    told = {
        half: (float(heat), int(connections), library)
        for half, heat, connections, library in re.findall(
            r"^(\w+): heat (\S+), \d ranks, (\d) connections; (.*)$",
            done.stdout,
            re.MULTILINE,
        )
    }
    left, right = heats(20, 50)
    for half, heat in (("left", left), ("right", right)):
        assert told[half][0] == pytest.approx(heat, abs=1e-8)
        assert told[half][1] == 4
    assert "MPICH" in told["left"][2]
    assert "Open MPI" in told["right"][2]


@pytest.mark.slow
@pytest.mark.vendor("mpich")
@pytest.mark.vendor("openmpi")
def test_a_half_that_fails_ends_the_other() -> None:
    done = run("2")  # rows: the right half has three ranks
    if done.returncode == 77:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 2, done
    assert "plate: give a row for each rank" in done.stderr


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    done = run(CC="no-such-compiler")
    assert done.returncode == 77
    assert "left out, because no-such-compiler is missing" in done.stderr
    done = run(CC="true", MPICH=str(tmp_path))
    assert done.returncode == 77
    assert f"{tmp_path}/include/mpi.h is missing: make interop" in done.stderr
