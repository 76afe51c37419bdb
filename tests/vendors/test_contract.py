"""Every vendor keeps the contract of ``impi.vendors.base``, under its real launcher."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAM = HERE / "programs" / "contract.py"
HELPERS = {"until", "next_arrival", "take", "send", "done", "meet", "main"}
CHECKS = [
    node.name
    for node in ast.parse(PROGRAM.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name not in HELPERS
] + ["finalize"]


def need(vendor: str) -> None:
    if vendor != "pure" and not (ROOT / ".mpi" / vendor / "bin" / "mpiexec").exists():
        pytest.skip(f"{vendor} is not in .mpi/{vendor}: run ci/vendors.sh")


def launch(vendor: str, size: int, *argv: str, **environ: str) -> subprocess.CompletedProcess[str]:
    need(vendor)
    return subprocess.run(
        [sys.executable, str(HERE / "launch_alone.py"), vendor, str(size), *argv],
        capture_output=True,
        text=True,
        timeout=150,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        check=False,
    )


@cache
def outcome(vendor: str, size: int) -> tuple[subprocess.CompletedProcess[str], dict[str, dict[int, str]]]:
    """One run of all checks: per check and rank, what went wrong."""
    result = launch(vendor, size, str(PROGRAM))
    checks: dict[str, dict[int, str]] = {}
    for line in result.stdout.splitlines():
        # Two procs may write at the same time under a launcher that does not keep lines apart.
        for part in line.replace("}{", "}\n{").splitlines():
            if part.startswith('{"check"'):
                record = json.loads(part)
                checks.setdefault(record["check"], {})[record["rank"]] = record["wrong"]
    return result, checks


# All checks of a run stand together, so that one worker has them and the run takes place once.
@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("vendor", ["pure", "mpich", "openmpi"])
def test_contract(check: str, vendor: str, size: int) -> None:
    need(vendor)
    result, checks = outcome(vendor, size)
    said = checks.get(check, {})
    assert "".join(said.values()) == ""
    assert sorted(said) == list(range(size)), f"not reached by all: {said}\n{result.stderr}\nexit {result.returncode}"
    if check == "finalize":
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("vendor", ["pure", "mpich", "openmpi"])
def test_abort_ends_every_proc(vendor: str) -> None:
    result = launch(vendor, 3, str(HERE / "programs" / "abort.py"))
    assert result.returncode == 7, result.stderr
    assert result.stdout.count("began") == 3
    assert "survived" not in result.stdout


@pytest.mark.parametrize(("vendor", "other"), [("mpich", "openmpi"), ("openmpi", "mpich")])
def test_another_library_is_refused_by_name(vendor: str, other: str) -> None:
    need(other)
    program = str(HERE / "programs" / "wrong_library.py")
    result = launch(vendor, 1, program, WRONG=str(ROOT / ".mpi" / other / "lib"))
    names = {"mpich": "MPICH", "openmpi": "Open MPI"}
    assert result.returncode == 0, result.stderr
    assert (
        f"vendor {vendor} needs {names[vendor]}, but the MPI library that was loaded is {names[other]}" in result.stdout
    )


def test_procs_that_do_not_see_each_other_are_refused() -> None:
    """A proc of one MPI under another's mpiexec is rank 0 of 1, without an error of its own."""
    need("openmpi")
    wrong = str(ROOT / ".mpi" / "openmpi" / "lib")
    environ = {"WRONG": wrong, "VENDOR": "openmpi", "OMPI_MCA_btl": "self"}  # else a singleton leaves shared memory
    result = launch("mpich", 2, str(HERE / "programs" / "wrong_library.py"), **environ)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("Open MPI sees 1 of the 2 procs") == 2


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("vendor", ["mpich", "openmpi"])
def test_more_octets_than_a_c_int_counts(vendor: str) -> None:
    available = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    if int(available.split()[1]) < 8 * 2**20:
        pytest.skip("less than 8 GiB of memory are available, and two messages of 2 GiB must fit")
    result = launch(vendor, 2, str(HERE / "programs" / "huge.py"))
    assert result.returncode == 0, result.stderr
    assert "huge message is right" in result.stdout
