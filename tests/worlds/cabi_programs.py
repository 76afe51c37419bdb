"""The programs of tests/cabi, and the headers that they are compiled with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from impi.cabi.library import build
from impi.cli import impicc

ROOT: Final = Path(__file__).parents[2]
PROGRAMS: Final = ROOT / "tests" / "cabi" / "programs"
HEADERS: Final = {
    "standard": "mpich/include/mpi_abi.h",
    "impicc": "",
    "mpich": "mpich/include/mpi.h",
    "openmpi": "openmpi/include/mpi.h",
}
"""By ABI; impicc has a header of its own."""
_OWN: Final = {"mpich": "mpich/lib/libmpi.so.12", "openmpi": "openmpi/lib/libmpi.so.40"}
# MPI_UNWEIGHTED may be an address without memory.
_ADDRESSES: Final = ("-Wno-stringop-overread", "-Wno-stringop-overflow")
_FLAGS: Final = ("-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", *_ADDRESSES)


def compile_program(folder: Path, name: str, abi: str, *flags: str) -> str:
    """Return the path of a program, compiled for an ABI and linked with its vendor's library.

    Args:
        folder: where it goes.
        name: of its source in :data:`PROGRAMS`.
        abi: see :data:`HEADERS`.
        flags: for the compiler.
    """
    return compile_source(folder, PROGRAMS / f"{name}.c", abi, *flags)


def compile_source(folder: Path, text: Path, abi: str, *flags: str) -> str:
    """As :func:`compile_program`, of any source."""
    # env would take a name with = for a variable
    out = folder / "-".join((text.stem, abi, *flags)).replace("=", "-").replace(
        "/", "_"
    )
    source = str(text)
    if out.exists():
        return str(out)
    if abi == "impicc":
        subprocess.run(
            impicc.command_of([*_FLAGS, *flags, "-o", str(out), source], os.environ),
            check=True,
        )
        return str(out)
    header = ROOT / ".mpi" / HEADERS[abi]
    if not header.exists():
        pytest.skip(f"{header} is missing: 'make test' installs it")
    include = folder / f"include-{abi}"
    if not include.exists():
        if abi == "standard":
            include.mkdir()
            shutil.copy(header, include / "mpi.h")
        else:
            include.symlink_to(header.parent)
    library = (
        ROOT / ".mpi" / _OWN[abi] if abi in _OWN else build.library(abi, os.environ)
    )
    more = ["-Wl,--allow-shlib-undefined", *flags]
    subprocess.run(
        ["cc", *_FLAGS, f"-I{include}", "-o", str(out), source, str(library), *more],
        check=True,
    )
    return str(out)
