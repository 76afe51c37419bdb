"""``impifort``: the Fortran compiler with MPI's header, module and library; needs no other MPI."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError
from impi.cabi.library import build
from impi.cabi.text import headers
from impi.cli import compiling

_USAGE: Final = """usage: impifort [-show] ARGUMENTS OF THE FORTRAN COMPILER

Compiles programs with 'include "mpif.h"' or 'use mpi' for the ABI of Open MPI 4 and 5: they run
under 'impirun ... ./a.out', and under Open MPI. -show prints the command and runs nothing. FC names
another compiler than gfortran."""
# MPI passes buffers of all types to one function
_MISMATCH: Final = "-fallow-argument-mismatch"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the compiler; return its exit code, or 1 if the compiler or the library is missing."""
    return compiling.run("impifort", _USAGE, command_of, argv)


def command_of(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the compiler's command with header, module and library.

    Raises:
        LaunchError: no Fortran compiler, or the library cannot be compiled.
    """

    compiler = _compiler(environ)
    told = _told(compiler)
    # gfortran 10 made an error of it, and older ones do not know the option.
    more = (
        [_MISMATCH] if told.startswith("GNU Fortran") and int(_major(told)) > 9 else []
    )
    *_, library, fortran = build.preloaded(headers.FORTRAN_ABI, environ)
    include = _include(library.parent, [compiler, *more], told)

    command = [compiler, *more, f"-I{include}", *arguments]
    if compiling.links(arguments):
        # The library for Fortran first, because it calls the other one.
        command += [str(fortran), str(library), f"-Wl,-rpath,{library.parent}"]

    return command


def _compiler(environ: Mapping[str, str]) -> str:
    named = environ.get("FC")
    for name in [named] if named else ("gfortran", "flang", "ifx"):
        if found := shutil.which(name, path=environ.get("PATH")):
            return found

    missing = (
        f"FC is {named}, and there is no such program" if named else "there is none"
    )
    raise LaunchError(
        f"programs in Fortran need a Fortran compiler, and {missing}: install gfortran, or set FC to one"
    )


def _told(compiler: str) -> str:
    return subprocess.run(
        [compiler, "--version"],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    ).stdout


def _major(told: str) -> str:
    words = told.splitlines()[0].split()
    return next(
        (word.partition(".")[0] for word in reversed(words) if word[0].isdigit()), "0"
    )


def _include(folder: Path, compile_: Sequence[str], told: str) -> Path:
    """Return the folder of header and module; on first use, make them there beside the library.

    A module is in the compiler's own format, so each compiler and version has a folder.
    """

    place = (
        folder
        / f"include-{hashlib.sha256((compile_[0] + told).encode()).hexdigest()[:12]}"
    )
    if place.exists():
        return place

    # Beside its place, because rename() does not leave a file system.
    with tempfile.TemporaryDirectory(dir=folder) as work:
        made = Path(work, "made")
        made.mkdir()
        (made / "mpif.h").write_text(headers.fortran_header(), "utf-8")
        (made / "mpi.f90").write_text(headers.MODULE, "utf-8")
        # The compiler writes the module beside it; the object file is of no use.
        argv = [*compile_, "-c", "mpi.f90", "-o", os.devnull]

        done = subprocess.run(
            argv,
            cwd=made,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode:
            told = " ".join(done.stderr.split())[:300]
            raise LaunchError(f"{compile_[0]} cannot compile the module mpi: {told}")

        if not place.exists():
            made.rename(place)

    return place
