"""Programs whose MPI functions in C are ours (:mod:`impi.cabi`): those that a compiler has made.

``impirun --handles ABI`` gives programs in Python mpi4py itself, over our library of an ABI.
Extension modules that were compiled for it, and take handles of C from objects of mpi4py, then work
in a job. The hook (:mod:`impi.launch.hook.sitecustomize`) reads the variables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError, UsageError
from impi.base.variables import BEHIND, HANDLES_FROM, STANDS_IN
from impi.cabi.library.program_file import ProgramFile, is_elf, program_file, why_not_behind, wrappers
from impi.cabi.tables.abi_tables import fortran, sonames
from impi.launch.start.without_mpi import is_python, title

_CHECKED: Final = (
    "/bin/sh",
    "-c",
    # Without it the loader warns, and the program would be a job of its vendor alone.
    '[ -r "$1" ] || { '
    'echo "impi: $(uname -n) has no $1: start again, with an IMPI_CACHE that all nodes have" >&2; exit 1; }; '
    'shift; exec env "$@"',
    "impi",
)


def served(
    argv: tuple[str, ...], environ: Mapping[str, str], library: str, abi: str = ""
) -> tuple[tuple[str, ...], str]:
    """Return the command that starts a program with our library as its libmpi, and how it is.

    A command without a program that uses MPI stays as it is. The variables are set behind
    mpiexec, because Open MPI's puts its own folder first into LD_LIBRARY_PATH.

    Args:
        argv: the program and its arguments.
        environ: its environment.
        library: path of the client's own library, which ours may stand before; empty: none.
        abi: whose library the program opens by itself; empty: it does not.

    Raises:
        UsageError: the program's MPI cannot be ours
        (:func:`impi.cabi.library.program_file.program_file`).
        UsageError: the program's path contains '=', so that env takes it for a variable.
        LaunchError: the library cannot be compiled.
    """
    environ = {**environ, **_set_by(argv)}
    found, itself = (ProgramFile(abi=abi, needs=sonames(abi)), False) if abi else _program(argv, environ)
    if found is None and is_python(argv[0]):
        return argv, "the program is Python's"
    if "=" in argv[0]:
        raise UsageError(f"the path of a compiled program must not contain '=', and {argv[0]} does: give it a link")
    names: list[str] = []
    own: dict[str, str] = {}
    if found is not None:
        names, told = preloads(found, environ, "" if abi else library)
        own = {STANDS_IN: found.abi}
    if not itself:
        try:
            from impi.cabi.library.usher import usher  # most programs are Python, and need none

            names.append(str(usher(environ)))
        except LaunchError as error:
            if found is None:
                return argv, f"the program calls no MPI library itself; whether others do for it is not seen: {error}"
            raise
        own[BEHIND] = library
        if found is None:
            told = "the program calls no MPI library by itself: programs behind it get impi's library when they start"
    # Tools come first: a profiler's functions call ours.
    tools = [environ.get("LD_PRELOAD"), *(wrappers(found) if found is not None else ())]
    preload = " ".join(filter(None, (*tools, *names)))
    rows = [f"{name}={value}" for name, value in {"LD_PRELOAD": preload, **own}.items()]
    return (*_CHECKED, names[0], *rows, *argv), told


def _set_by(argv: Sequence[str]) -> dict[str, str]:
    """Return the tools that ``env LD_PRELOAD=TOOL`` brings to the program."""
    return dict(word.split("=", 1) for word in argv if word.startswith("LD_PRELOAD="))


def preloads(found: ProgramFile, environ: Mapping[str, str], library: str) -> tuple[list[str], str]:
    """Return the paths that stand in LD_PRELOAD for a program, and how it reaches MPI.

    Args, raises: as for :func:`served`.
    """
    from impi.cabi.library.build import library as compiled  # takes a while, and Python programs need none
    from impi.cabi.library.build import preloaded

    behind = _behind(found, library)
    why = why_not_behind(found, environ, behind) if behind else ""
    if behind and not why:
        front = str(compiled(found.abi, environ, behind))
        return [front, behind], f"front mode: impi's library stands before {behind}, which the program was compiled for"
    spared = "" if found.is_fortran else fortran(found.abi)
    names = [str(path) for path in preloaded(found.abi, environ) if path.name != spared]
    needed = ", ".join(name for name in found.needs if name.startswith("libmpi"))
    return names, f"stand-in mode: impi's library is the program's {needed}" + (f", because {why}" if why else "")


def _program(argv: tuple[str, ...], environ: Mapping[str, str]) -> tuple[ProgramFile | None, bool]:
    """Return the first word that is a program with MPI, and whether it is the command itself.

    numactl or a debugger may start it.
    """
    files = [word for word in argv if is_elf(word) and not is_python(word)]
    if argv[0] in files and (found := program_file(argv[0], environ)) is not None:
        return found, True
    for file in files:
        with suppress(UsageError):  # an argument may be any file
            if file != argv[0] and (found := program_file(file, environ)) is not None:
                return found, False
    return None, False


def _behind(program: ProgramFile, library: str) -> str:
    """Return the client's library if it is the one that the program was compiled for; else empty.

    An interface for Fortran calls PMPI_ functions, which no library can stand before.
    """
    if not library or program.is_fortran:
        return ""
    real = Path(library).resolve()
    fits = any(real.name.startswith(name) for name in program.needs if name.startswith("libmpi"))
    return str(real) if fits and program.abi in ("mpich", "openmpi") else ""


def handles_environment(
    abi: str, argv: Sequence[str], environ: Mapping[str, str], tell: Callable[[str], object]
) -> dict[str, str]:
    """Return the variables of procs whose programs get mpi4py itself; none without an ABI.

    Args:
        abi: that of the program's extension modules; empty: none.
        argv: what starts the program, after :func:`served`.
        environ: of the user.
        tell: is told what takes long.

    Raises:
        UsageError: the program is a compiled one.
        LaunchError: library or extension cannot be made.
    """
    if not abi:
        return {}
    if any(word.startswith(f"{STANDS_IN}=") for word in argv):
        raise UsageError(f"--handles is for programs in Python, and {title(argv)} is a compiled one: leave it out")
    from impi.cabi.library import build, mpi4py_extension  # takes a while, and most programs need none

    libraries = build.preloaded(abi, environ)
    extension = mpi4py_extension.extension(abi, environ, tell)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = {HANDLES_FROM: os.pathsep.join([version, str(extension), *map(str, libraries)])}
    if abi != "standard":
        found[STANDS_IN] = abi  # the vendor's library may have the same name
    return found
