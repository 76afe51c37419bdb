"""Programs that end without MPI: their names, and whether they may have used MPI unseen.

mpiexec runs any program, and so does impirun, if no client's program initialises MPI. But a program
that impirun's hook or usher does not reach may have been a job of its MPI library alone, in each
client. Its exit code 0 would then be a lie, so :func:`why_unsure` finds such programs.
"""

from __future__ import annotations

import mmap
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from impi.base.errors import UsageError
from impi.base.variables import BEHIND
from impi.cabi.library.program_file import is_elf, is_privileged, loader_of

# Python's options that hide the hook, which needs PYTHONPATH and sitecustomize
_HIDE: Final = "IES"
_WITH_VALUE: Final = ("-W", "-X", "--check-hash-based-pycs")
_LIBRARY: Final = 4  # index of the library in a command from compiled.served()
_NOT_LOADED: Final = 127  # exit code of the loader, and of shells
_LIBRARIES: Final = (b"libmpi.so", b"libmpich.so")


def title(argv: Sequence[str]) -> str:
    """Return the program's name for the user: of the script or module, not of the interpreter."""
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
    """Return a command without the words that :func:`impi.launch.start.compiled.served` adds."""
    if list(argv[:2]) != ["/bin/sh", "-c"] or list(argv[3:4]) != ["impi"]:
        return argv

    # Behind the library stand words NAME=VALUE. The path of a program has
    # no '=', which served() refuses.
    return argv[
        next(i for i, word in enumerate(argv) if i > _LIBRARY and "=" not in word) :
    ]


def why_unsure(argv: Sequence[str]) -> str:
    """Return why the program may have used an MPI library itself, in words; empty: it has not."""

    served = bare(argv)
    is_seen, argv = len(served) < len(argv), served

    command = [*_shebang(argv[0]), *argv]
    if hidden := hides_hook(command):
        return (
            f"Python's option -{hidden} hides impi from it: leave that out, or, where impi is installed, "
            "import impi.MPI in place of mpi4py.MPI"
        )

    if not is_seen and _names_library(argv[0]):
        return (
            "it names libmpi, which it may have opened itself: name the ABI of that (impirun --abi "
            "mpich|openmpi|standard)"
        )

    if static := _static(argv):
        return (
            f"{static} is a static program, so a program that it has started without LD_PRELOAD may have used MPI "
            "unseen: start that one directly"
        )

    if privileged := _privileged(argv):
        return (
            f"{privileged} runs with another user's rights (setuid), so a program that it has started may have used "
            "MPI unseen: start that one directly, as this user"
        )

    if not is_seen and not is_python(argv[0]) and _may_start_others(argv):
        return "it may have started a program with MPI, which is seen with a C compiler alone: install gcc, or set CC"

    return ""


def why_not_loaded(argv: Sequence[str], code: int) -> str:
    """Return the cure for a program behind a script that lacks a libmpi, or a symbol; else empty.

    The loader ends such a program with code 127 before the usher, which would bring it ours, runs.
    So it ends one whose client's libmpi is too new, and lacks the C++ bindings of Open MPI 4.
    Shells have the same code for a command that they do not find.
    """
    if code != _NOT_LOADED or not any(w.startswith(f"{BEHIND}=") for w in argv):
        return ""

    return (
        "; if its loader did not find libmpi, or a symbol there, name the ABI (impirun --abi "
        "mpich|openmpi|standard)"
    )


def is_python(program: str) -> bool:
    """Return whether a program is a Python interpreter, by its name."""
    return Path(program).name.startswith("python")


def python_of(argv: Sequence[str]) -> str:
    """Return the path of the Python that runs a command, on this machine; empty: none is seen.

    It may be an argument, as of numactl, or stand in the first line of a script.
    """
    argv = bare(argv)

    for word in (*_shebang(argv[0]), *argv):
        if is_python(word) and (found := shutil.which(word)) is not None:
            return found

    return ""


def hides_hook(argv: Sequence[str]) -> str:
    """Return the letter of Python's option that keeps impi's hook away; empty: none does."""
    letters = "".join(_split(argv[1:])[0]) if is_python(argv[0]) else ""
    return next((letter for letter in _HIDE if letter in letters), "")


def _may_start_others(argv: Sequence[str]) -> bool:
    """Return whether a program may start others: it is a script, or has programs as arguments."""
    return not is_elf(argv[0]) or any(
        " " in word or "/" in word or Path(word).exists() for word in argv[1:]
    )


def _static(argv: Sequence[str]) -> str:
    """Return the name of a static program that has another program as argument; empty: none is.

    The loader brings no usher into it. So whatever it starts without the job's variables, it starts
    as a job of its own.
    """
    for number, word in enumerate(argv):
        given = (each for each in argv[number + 1 :] if "/" in each)
        if _is_static(word) and any(_is_executable(each) for each in given):
            return Path(word).name

    return ""


def _privileged(argv: Sequence[str]) -> str:
    """Return the name of a setuid program that has further words; empty: none is.

    Its loader brings no usher into it, and it (sudo, su) gives others no variable of the job.
    """
    for word in argv[:-1]:
        path = shutil.which(word)
        if path is not None and is_elf(path) and is_privileged(path):
            return Path(path).name

    return ""


def _is_static(word: str) -> bool:
    if ".so" in Path(word).name or not _is_executable(word) or not is_elf(word):
        return False  # the loader itself names no loader

    try:
        return not loader_of(word)
    except UsageError:
        return False


def _is_executable(word: str) -> bool:
    return Path(word).is_file() and os.access(word, os.X_OK)


def _split(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the letters of Python's own options, and the words after these options."""

    letters = []

    rest = [*words]
    while rest and rest[0].startswith("-") and rest[0] not in ("-", "-m", "-c"):
        word = rest.pop(0)
        if word in _WITH_VALUE:
            del rest[:1]
        # -Wignore has its value in the same word, and no letters of options.
        elif not word.startswith(("--", "-W", "-X")):
            letters.append(word[1:])

    return letters, rest


def _shebang(program: str) -> list[str]:
    """Return the interpreter of a script with its options, without a leading ``env``."""

    try:
        with open(program, "rb") as file:  # noqa: PTH123
            line = file.readline(256)
    except OSError:
        return []

    words = (
        shlex.split(line[2:].decode("utf-8", "replace"))
        if line.startswith(b"#!")
        else []
    )
    # The kernel passes the words of a first line as one, and env -S splits them.
    while words and (Path(words[0]).name == "env" or words[0] == "-S"):
        del words[0]

    return words


def _names_library(program: str) -> bool:
    try:
        with (
            open(program, "rb") as file,  # noqa: PTH123
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return data[:4] == b"\x7fELF" and any(
                data.find(name) >= 0 for name in _LIBRARIES
            )
    except (OSError, ValueError):
        return False
