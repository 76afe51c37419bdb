"""Compile the programs in C as a user of each vendor does, once for each run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError
from impi.base.manifests import backed
from impi.launch.start.prefix import find
from impi.launch.start.program import ROOT

PROGRAMS: Final = Path(__file__).with_name("programs")
_SECONDS: Final = 120.0


def is_compiled(program: str) -> bool:
    """Return whether a program of :data:`PROGRAMS` is C source."""
    return program.endswith(".c")


@cache
def executable(program: str, vendor: str) -> str:
    """Return the path of the program, compiled by the vendor's own mpicc, or by impicc.

    Args:
        program: a file of :data:`PROGRAMS`, such as ``usual.c``.
        vendor: the vendor whose ranks run it; impicc compiles for ``pure``, which has no library.

    Raises:
        LaunchError: there is no compiler, or it failed.
    """

    command = [sys.executable, "-m", "impi.cli.impicc"]
    if backed(vendor).has_library:
        command = [str(find(vendor, "", os.environ).prefix / "bin" / "mpicc")]

    target = Path(_folder().name) / f"{Path(program).stem}-{vendor}"
    argv = [*command, "-O2", "-o", str(target), str(PROGRAMS / program)]
    _compile(argv, {**os.environ, "PYTHONPATH": ROOT})

    return str(target)


def _compile(argv: list[str], environ: Mapping[str, str]) -> None:
    try:
        ended = subprocess.run(
            argv,
            env=environ,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LaunchError(
            f"{argv[0]} compiles nothing: {error}; without a compiler use --languages python"
        ) from None

    if ended.returncode:
        words = " ".join(ended.stderr.split())[-200:]
        raise LaunchError(
            f"{argv[0]} failed: {words}; without a compiler use --languages python"
        )


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder that is removed when this process ends."""
    return tempfile.TemporaryDirectory(prefix="impi-bench-")
