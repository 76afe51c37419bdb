"""A fixture for tests of the API: a program as a job of one proc."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

BEGIN = """
from impi import MPI

def refused(code, call, *args):
    try:
        call(*args)
    except MPI.Exception as failure:
        assert failure.Get_error_class() == code, failure
        return str(failure)
    raise AssertionError("not refused")
"""


@pytest.fixture
def alone() -> Callable[..., list[str]]:
    """``alone(program, *arguments)``: the lines that it prints; it has ``MPI`` and ``refused``."""

    def run(program: str, *arguments: str) -> list[str]:
        command = [sys.executable, "-c", BEGIN + program, *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    return run
