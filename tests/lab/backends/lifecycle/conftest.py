"""A request for a sweep, and a process that the sweep finds."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from impi.lab.backends.lifecycle.residue_program import Spec


@pytest.fixture
def mark() -> str:
    return f"IMPILAB_LAB=test-{secrets.token_hex(8)}"


@pytest.fixture
def spec(mark: str) -> Spec:
    known = [path.name for path in Path("/dev/shm").iterdir()]
    return Spec(
        uid=os.getuid(),
        spare=[],
        mark=mark,
        ports=[],
        prefix="127.126.",
        known=known,
        others=[],
        folders=[],
    )


@pytest.fixture
def marked(mark: str) -> Iterator[subprocess.Popen[bytes]]:
    name, _, value = mark.partition("=")
    program = "import time; print(flush=True); time.sleep(600)"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        env={name: value},
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        process.kill()
