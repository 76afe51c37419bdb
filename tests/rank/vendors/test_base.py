"""Every vendor keeps the contract of ``impi.rank.vendors.base``, under its real launcher."""

from __future__ import annotations

import ast
import json
import subprocess
from functools import cache

import pytest
from vendor_alone import HERE, launch, need

PROGRAM = HERE / "programs" / "contract.py"
HELPERS = {"until", "next_arrival", "take", "send", "done", "meet", "main"}
CHECKS = [
    node.name
    for node in ast.parse(PROGRAM.read_text()).body
    if isinstance(node, ast.FunctionDef) and node.name not in HELPERS
] + ["finalize"]


@cache
def outcome(
    vendor: str, size: int
) -> tuple[subprocess.CompletedProcess[str], dict[str, dict[int, str]]]:
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
    assert sorted(said) == list(range(size)), (
        f"not reached by all: {said}\n{result.stderr}\nexit {result.returncode}"
    )
    if check == "finalize":
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("vendor", ["pure", "mpich", "openmpi"])
def test_abort_ends_every_proc(vendor: str) -> None:
    result = launch(vendor, 3, str(HERE / "programs" / "abort.py"))
    assert result.returncode == 7, result.stderr
    assert result.stdout.count("began") == 3
    assert "survived" not in result.stdout
