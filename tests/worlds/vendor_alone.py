"""Procs of one vendor under its real launcher, without a job (``tests/rank/vendors``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HERE = ROOT / "tests" / "rank" / "vendors"


def need(vendor: str) -> None:
    if vendor != "pure" and not (ROOT / ".mpi" / vendor / "bin" / "mpiexec").exists():
        pytest.skip(f"{vendor} is not in .mpi/{vendor}: run ci/vendors.sh")


def launch(
    vendor: str, size: int, *argv: str, **environ: str
) -> subprocess.CompletedProcess[str]:
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
