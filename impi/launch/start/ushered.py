"""The usher's Python side (``impi/cabi/usher.c``), for processes with another libmpi than ours.

A program behind a script begins anew with our library, exactly as it would without the script: the
same functions find out its ABI and its mode. A process that has already used another libmpi can
only be reported to impirun.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Final, NoReturn

from impi.base.errors import ImpiError
from impi.base.variables import BEHIND, PRELOAD, STANDS_IN, USHERED
from impi.cabi.library.program_file import program_file, runtimes, wrappers
from impi.launch.start.compiled import preloads
from impi.rank.engine.job.join import VARIABLE
from impi.rank.vendors.meeting import tell_failure

FOREIGN: Final = (
    "{title} uses an MPI library without impi, and so was no part of the job: if it opens the library itself, "
    "name the ABI of that (impirun --abi mpich|openmpi|standard); if it is Python, leave out options -I, -E and -S"
)


def begin() -> None:
    """Execute the program ``sys.argv[1]`` with our library; its ``argv`` is ``sys.argv[2:]``.

    If that is impossible, tell impirun why, and end this process.
    """

    program, *argv = sys.argv[1:]

    # The usher has kept LD_PRELOAD from this Python, and put it here for the program. Not for a
    # compiler that this Python starts: a tool that needs libmpi would make that a program of MPI.
    environ = {**os.environ, "LD_PRELOAD": os.environ.pop(PRELOAD, "")}
    environ.pop(PRELOAD, None)
    try:
        found = program_file(program, environ)
        if found is None:
            _fail(FOREIGN.format(title=Path(program).name))

        names, _ = preloads(found, environ, environ.get(BEHIND, ""))
    except ImpiError as error:
        _fail(str(error))

    # Tools first, then libraries of the program that wrap MPI functions, then ours.
    tools = [*runtimes(found), environ["LD_PRELOAD"], *wrappers(found)]
    preload = ":".join([*tools, *names])
    # execve() keeps the process id, by which the usher knows that this program has begun anew.
    environ |= {
        "LD_PRELOAD": preload,
        STANDS_IN: found.abi,
        USHERED: str(os.getpid()),
    }
    os.execve(program, argv, environ)


def tell() -> None:
    """Tell impirun why the parent of this process is not in the job.

    The words come as ``sys.argv[1]``. Without them it has used another libmpi.
    """
    if words := sys.argv[1:]:
        _fail(words[0].strip())

    try:
        title = Path(f"/proc/{os.getppid()}/exe").readlink().name
    except OSError:
        title = "a program"

    _fail(FOREIGN.format(title=title))


def _fail(sentence: str) -> NoReturn:
    tell_failure(json.loads(os.environ[VARIABLE]), sentence, heard=True)
    raise SystemExit(1)
