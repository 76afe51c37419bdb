"""Programs that end without MPI: their names, and whether they may have used it unseen.

mpiexec runs any program. impirun does so, too, where no client's program initialises MPI. But one
that impirun's hook does not reach may have been a job of the library alone, which must not pass.
"""

from __future__ import annotations

import mmap
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from impi.cabi.library.program_file import is_elf

_HIDE: Final = "IES"  # options of Python that hide the hook: it comes by PYTHONPATH and sitecustomize
_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")
_LIBRARY: Final = 4  # place of the library in a served command
_LIBRARIES: Final = (b"libmpi.so", b"libmpich.so")


def title(argv: Sequence[str]) -> str:
    """Return the program's name: of the script or module, not of the interpreter."""
    argv = bare(argv)
    if not is_python(argv[0]):
        return Path(argv[0]).name
    match _split(argv[1:])[1]:
        case ["-m", module, *_]:
            return module
        case [script, *_] if not script.startswith("-"):
            return Path(script).name
        case _:
            return " ".join([Path(argv[0]).name, *argv[1:2]])


def bare(argv: Sequence[str]) -> Sequence[str]:
    """Return a command without what :func:`impi.launch.start.compiled.served` has put before it."""
    if list(argv[:2]) != ["/bin/sh", "-c"] or list(argv[3:4]) != ["impi"]:
        return argv
    return argv[next(i for i, word in enumerate(argv) if i > _LIBRARY and "=" not in word) :]


def why_unsure(argv: Sequence[str]) -> str:
    """Return why the program may have used an MPI library by itself; empty: it has not."""
    served = bare(argv)
    is_seen, argv = len(served) < len(argv), served
    command = [*_shebang(argv[0]), *argv]
    letters = "".join(_split(command[1:])[0]) if is_python(command[0]) else ""
    if hidden := next((letter for letter in _HIDE if letter in letters), ""):
        return (
            f"Python's option -{hidden} hides impi from it: leave that out, or, where impi is installed, "
            "import impi.MPI in place of mpi4py.MPI"
        )
    if not is_seen and _names_library(argv[0]):
        return (
            "it names libmpi, which it may have opened itself: name the ABI of that (impirun --abi "
            "mpich|openmpi|standard)"
        )
    if not is_seen and not is_python(argv[0]) and _may_start_others(argv):
        return "it may have started a program with MPI, which is seen with a C compiler alone: install gcc, or set CC"
    return ""


def is_python(program: str) -> bool:
    """Return whether a program is a Python interpreter, by its name."""
    return Path(program).name.startswith("python")


def _may_start_others(argv: Sequence[str]) -> bool:
    """Whether a program is a script, or has one or more as its arguments."""
    return not is_elf(argv[0]) or any(" " in word or "/" in word or Path(word).exists() for word in argv[1:])


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the letters of Python's own options, and what follows them."""
    letters = []
    rest = [*words]
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "-m", "-c"):
        word = rest.pop(0)
        if word in _WITH_VALUE:
            del rest[:1]
        elif not word.startswith(("--", "-W", "-X")):
            letters.append(word[1:])
    return letters, rest


def _shebang(program: str) -> list[str]:
    """Return the interpreter of a script with its options; env's are left out."""
    try:
        with open(program, "rb") as file:  # noqa: PTH123
            line = file.readline(256)
    except OSError:
        return []
    words = shlex.split(line[2:].decode("utf-8", "replace")) if line.startswith(b"#!") else []
    while words and (Path(words[0]).name == "env" or words[0] == "-S"):
        del words[0]
    return words


def _names_library(program: str) -> bool:
    try:
        with open(program, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:  # noqa: PTH123
            return data[:4] == b"\x7fELF" and any(data.find(name) >= 0 for name in _LIBRARIES)
    except (OSError, ValueError):
        return False
