"""Start compiled programs with our C library (:mod:`impi.cabi`) as their libmpi.

:func:`served` finds out which program of a command uses MPI, has the library of its ABI compiled,
and puts it into LD_PRELOAD. A command whose first program is neither linked with MPI nor Python may
start others that are: then the usher comes with it (``impi/cabi/usher.c``).

``impirun --handles ABI`` gives programs in Python mpi4py itself, over our library of an ABI.
Extension modules that take C handles out of mpi4py's objects then work in a job. The hook
(:mod:`impi.launch.hook.sitecustomize`) reads the variables of :func:`handles_environment`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from impi.base.errors import LaunchError, UsageError
from impi.base.variables import BEHIND, HANDLES_FROM, MPI4PY_FROM, STANDS_IN, USHER
from impi.cabi.library.program_file import (
    ProgramFile,
    is_elf,
    program_file,
    runtimes,
    why_not_behind,
    wrappers,
)
from impi.cabi.tables.abi_tables import fortran, sonames
from impi.launch.start.without_mpi import hides_hook, is_python, python_of, title

_CHECKED: Final = (
    "/bin/sh",
    "-c",
    # If the library is missing, the loader only warns, and the program would run as a job of its
    # vendor alone: each client with the wrong size, and exit code 0.
    '[ -r "$1" ] || { '
    'echo "impi: $(uname -n) has no $1: start again, with an IMPI_CACHE that all nodes have" >&2; exit 1; }; '
    'shift; exec env "$@"',
    "impi",
)


def served(
    argv: tuple[str, ...],
    environ: Mapping[str, str],
    library: str,
    abi: str = "",
    tell: Callable[[str], object] | None = None,
) -> tuple[tuple[str, ...], str]:
    """Return the command that starts a program with our library, and a sentence for ``--explain``.

    A program in Python stays as it is. The variables are set by ``env`` behind mpiexec, because
    Open MPI's mpiexec puts its own folder first into LD_LIBRARY_PATH.

    Args:
        argv: the program and its arguments.
        environ: its environment.
        library: path of the client's own library, for front mode; empty: none.
        abi: the ABI of the library that the program opens itself (``--abi``); empty: none.
        tell: called with a sentence before a compilation.

    Raises:
        UsageError: the program's libmpi cannot be ours
            (:func:`impi.cabi.library.program_file.program_file`), or the program's path contains
            '=', and env would take it for a variable.
        LaunchError: the library cannot be compiled.
    """

    environ = {**environ, **_set_by(argv)}

    found, itself = (
        (ProgramFile(abi=abi, needs=sonames(abi)), False)
        if abi
        else _program(argv, environ)
    )
    if found is None and is_python(argv[0]):
        return argv, "the program is Python's"

    if "=" in argv[0]:
        raise UsageError(
            f"the path of a compiled program must not contain '=', and {argv[0]} does: give it a link"
        )

    names: list[str] = []

    own: dict[str, str] = {}
    if found is not None:
        names, told = preloads(found, environ, "" if abi else library, tell)
        own = {STANDS_IN: found.abi}

    if not itself:
        try:
            # Most programs are Python, and need none
            from impi.cabi.library.usher import usher

            names.append(str(usher(environ)))
        except LaunchError as error:
            # Without a C compiler a script is started as it is; if it ends without MPI, that is an
            # error then (without_mpi.py).
            if found is None:
                return (
                    argv,
                    f"the program calls no MPI library itself; whether others do for it is not seen: {error}",
                )

            raise

        own[BEHIND] = library
        if found is None:
            told = "the program calls no MPI library by itself: programs behind it get impi's library when they start"

    # Tools first: a profiler's functions of MPI must be found before ours, which they call.
    ahead = runtimes(found) if found is not None else ()
    linked = wrappers(found) if found is not None else ()
    tools = [*ahead, environ.get("LD_PRELOAD"), *linked]
    preload = " ".join(filter(None, (*tools, *names)))
    rows = [f"{name}={value}" for name, value in {"LD_PRELOAD": preload, **own}.items()]

    return (*_CHECKED, names[0], *rows, *argv), told


def _set_by(argv: Sequence[str]) -> dict[str, str]:
    """Return the variable that ``env LD_PRELOAD=TOOL`` in the command sets for the program."""
    return dict(word.split("=", 1) for word in argv if word.startswith("LD_PRELOAD="))


def preloads(
    found: ProgramFile,
    environ: Mapping[str, str],
    library: str,
    tell: Callable[[str], object] | None = None,
) -> tuple[list[str], str]:
    """Return the paths of our libraries for LD_PRELOAD, and a sentence for ``--explain``.

    Args:
        found: the program.
        environ: its environment.
        library: path of the client's own library, for front mode; empty: none.
        tell: called with a sentence before a compilation.

    Raises:
        LaunchError: a library cannot be compiled.
    """

    # Slow to import, and Python programs need none
    from impi.cabi.library.build import library as compiled
    from impi.cabi.library.build import preloaded

    behind = _library_behind(found, library)

    why = why_not_behind(found, environ, behind) if behind else ""
    if behind and not why:
        front = str(compiled(found.abi, environ, behind, tell))
        return (
            [front, behind],
            f"front mode: impi's library stands before {behind}, which the program was compiled for",
        )

    spared = "" if found.is_fortran else fortran(found.abi)
    made = preloaded(found.abi, environ, tell)
    names = [str(path) for path in made if path.name != spared]
    needed = ", ".join(name for name in found.needs if name.startswith("libmpi"))

    return names, f"stand-in mode: impi's library is the program's {needed}" + (
        f", because {why}" if why else ""
    )


def _program(
    argv: tuple[str, ...], environ: Mapping[str, str]
) -> tuple[ProgramFile | None, bool]:
    """Return the first program of a command that uses MPI, and whether it is the command itself.

    It may be an argument: of numactl, for instance, or of a debugger.
    """

    if is_python(argv[0]) and not hides_hook(argv):
        # The hook serves the programs that it starts (usher_environment): it may use MPI before.
        return None, False

    files = [word for word in argv if is_elf(word) and not is_python(word)]
    if argv[0] in files and (found := program_file(argv[0], environ)) is not None:
        return found, True

    for file in files:
        with suppress(UsageError):  # an argument may be a file of any kind
            if file != argv[0] and (found := program_file(file, environ)) is not None:
                return found, False

    return None, False


def _library_behind(program: ProgramFile, library: str) -> str:
    """Return the client's library if the program was compiled for it, so front mode fits; else "".

    Programs in Fortran never fit: their library calls PMPI_ functions, and ours would not see that.
    """

    if not library or program.is_fortran:
        return ""

    real = Path(library).resolve()
    fits = any(
        real.name.startswith(name)
        for name in program.needs
        if name.startswith("libmpi")
    )

    return str(real) if fits and program.abi in ("mpich", "openmpi") else ""


def usher_environment(
    argv: Sequence[str], environ: Mapping[str, str], library: str
) -> dict[str, str]:
    """Return the variables by which programs that a program in Python starts are procs of the job.

    None for other commands, which :func:`served` starts, and where nothing can be compiled: then a
    program that Python starts is a job of its own, as it is without impi.

    Args:
        argv: the program and its arguments.
        environ: for the place of the cache.
        library: path of the client's own library, which ours may stand before; empty: none.
    """
    if not is_python(argv[0]) or hides_hook(argv):
        return {}

    from impi.cabi.library.usher import usher

    try:
        return {USHER: str(usher(environ)), BEHIND: library}
    except LaunchError:
        return {}


def handles_environment(
    abi: str,
    argv: Sequence[str],
    environ: Mapping[str, str],
    tell: Callable[[str], object],
) -> dict[str, str]:
    """Return the variables for procs with ``--handles``, whose programs get mpi4py itself.

    Args:
        abi: the ABI of the program's extension modules; empty: no variables.
        argv: the command from :func:`served`.
        environ: the user's variables.
        tell: called with a sentence before a compilation, which takes minutes.

    Raises:
        UsageError: the program is a compiled one.
        LaunchError: library or extension cannot be made.
    """

    if not abi:
        return {}

    if any(word.startswith(f"{STANDS_IN}=") for word in argv):
        raise UsageError(
            f"--handles is for programs in Python, and {title(argv)} is a compiled one: leave it out"
        )

    # Slow to import, and most programs need none
    from impi.cabi.library import build, mpi4py_extension

    libraries = build.preloaded(abi, environ, tell)
    python = python_of(argv) or sys.executable
    extension = mpi4py_extension.extension(abi, python, environ, tell)
    # The hook compares it, since an extension module is for one version of Python.
    version = f"{sys.version_info.major}.{sys.version_info.minor}"

    found = {
        HANDLES_FROM: os.pathsep.join([version, str(extension), *map(str, libraries)])
    }
    if python != sys.executable:
        # A distribution's mpi4py is for one MPI library, and the client may have another.
        found[MPI4PY_FROM] = os.pathsep.join(mpi4py_extension.folders())
    if abi != "standard":
        # Keeps the vendor's library apart, which may have the same name
        found[STANDS_IN] = abi

    return found
