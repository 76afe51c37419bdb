"""``impicc``: the C compiler with MPI's standard header and our library; needs no other MPI."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from impi.cabi.library import build, compilation
from impi.cabi.text import headers
from impi.cli import compiling

_ABI: Final = "standard"
_USAGE: Final = """usage: impicc [-show] ARGUMENTS OF THE C COMPILER

Compiles programs for the standard ABI of MPI 5: they run under 'impirun ... ./a.out', and under
every MPI library that has libmpi_abi.so. -show prints the command and runs nothing. CC names
another compiler than cc."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the compiler; return its exit code, or 1 if the compiler or the library is missing."""
    return compiling.run("impicc", _USAGE, command_of, argv)


def command_of(arguments: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the compiler's command with header and library.

    Raises:
        LaunchError: the library cannot be compiled (:func:`impi.cabi.library.build.library`).
    """

    library = build.library(_ABI, environ)

    command = [compilation.compiler(), f"-I{_include(library)}", *arguments]
    if compiling.links(arguments):
        # With its path inside, the program also runs by itself, without impirun and its variables.
        command += [str(library), f"-Wl,-rpath,{library.parent}"]

    return command


def _include(library: Path) -> Path:
    """Return the folder of the header; on first use, write the header there beside the library."""
    folder = library.parent / "include"
    if not (folder / "mpi.h").exists():
        folder.mkdir(exist_ok=True)
        # Written beside and renamed: another impicc may be reading it.
        part = folder / f"mpi.h.{os.getpid()}"
        part.write_text(headers.c_header(), "utf-8")
        part.replace(folder / "mpi.h")

    return folder


if __name__ == "__main__":
    sys.exit(main())
