"""Intel MPI beside others; the matrix of every push has the vendors of the core tier alone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"


@pytest.fixture(scope="module", autouse=True)
def intel() -> None:
    """Its library, downloaded once."""
    done = subprocess.run(
        ["sh", ROOT / "ci/vendors.sh", "intel"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        pytest.skip(f"Intel MPI is not installed: {done.stderr[-500:]}")


@pytest.mark.proof
@pytest.mark.parametrize("other", ["mpich", "openmpi", "pure"])
def test_semantics_beside_another(other: str, run_job: Callable[..., Any]) -> None:
    result = run_job(
        [str(PROGRAMS / "semantics.py"), "2", "0,1,2"], ["intel:2", f"{other}:1"]
    )
    assert (set(result.codes), result.out) == ({0}, "all right\n"), str(result)


@pytest.mark.proof
def test_communicators_of_two_vendors(run_job: Callable[..., Any]) -> None:
    result = run_job([str(PROGRAMS / "communicators.py")], ["mpich:2", "intel:2"])
    assert (set(result.codes), result.out) == ({0}, "all right\n"), str(result)
